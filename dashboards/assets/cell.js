"use strict";
// A cell's page: its history as a strip, a mark a night, and charts over the nights.

(() => {
  const { el, load, statusOf, problem, plot, plural } = lighthouse;
  const strip = document.getElementById("strip");
  const plots = document.getElementById("plots");
  if (!strip) return;
  const { group, key } = strip.dataset;
  const months = strip.dataset.months.split(" ");
  const EAGER = 2;
  const DAYS = 31;

  // --- the strip: a row a month, the newest first; rows are there before their data

  const rows = new Map();
  const body = el("tbody");
  for (const month of [...months].reverse()) {
    const marks = Array.from({ length: DAYS }, () => el("td"));
    body.append(el("tr", {}, el("th", { scope: "row", text: month }), ...marks));
    rows.set(month, marks);
  }
  const shown = el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "A mark for each night" },
    el("table", {}, el("caption", { class: "vh", text: "Status by night: a row a month, a column a day" }),
      el("thead", {}, el("tr", {}, el("th", { scope: "col", text: "Month" }),
        ...Array.from({ length: DAYS }, (_, day) => el("th", { scope: "col", text: String(day + 1) })))), body));
  strip.append(shown);

  function fill(month, history) {
    const series = history.series[key];
    if (!series) return;
    history.nights.forEach((night, index) => {
      const letter = series.statuses[index];
      const cell = rows.get(month)[Number(night.slice(8, 10)) - 1];
      if (!cell || letter === undefined || letter === "-") return;
      const status = statusOf(letter);
      const attempts = series.attempts[index] ?? 0;
      const text = `${night}: ${status}${attempts > 1 ? `, ${plural(attempts, "attempt")}` : ""}`;
      cell.replaceChildren(el("span", { class: `st st-${status}`, title: text },
        el("span", { "aria-hidden": "true", text: letter }), el("span", { class: "vh", text: status })));
    });
  }

  const histories = new Map();
  async function read(month) {
    if (histories.has(month)) return;
    const history = await load(`history/${group}/${month}`);
    histories.set(month, history);
    fill(month, history);
  }

  // --- numbers: one record a night

  const seconds = (milliseconds) => (milliseconds === null ? null : milliseconds / 1000);

  function nights() {
    const found = [];
    for (const month of months) {
      const history = histories.get(month);
      const series = history?.series[key];
      if (!series) continue;
      history.nights.forEach((night, i) => found.push({
        night,
        status: statusOf(series.statuses[i]),
        error: plot.number(series.error[i]),
        lowering: plot.number(series.lowering[i]),
        execute: plot.number(series.execute[i]),
        low: plot.number(series.low[i]),
        high: plot.number(series.high[i]),
        stages: Object.entries(series.stages).map(([stage, column]) => [stage, seconds(column[i])]),
      }));
    }
    return found;
  }

  // documents have stages by name: their order is that of the attempt shown, or what is known of it
  const shownStages = [...document.querySelectorAll("[data-stage]")].map((row) => row.dataset.stage);
  const ORDER = ["build", "ingress", "lower", "codegen", "execute", "compare"];
  const rank = (stage) => {
    const place = shownStages.indexOf(stage);
    return ORDER.indexOf(stage.split(":")[0]) * 100 + (place < 0 ? 99 : place);
  };

  const TIP = { field: "night", type: "nominal", title: "night" };
  const BEYOND = 1e9; // documents have this for what is infinite
  const finite = (value) => value !== null && Number.isFinite(value);

  function stages(all) {
    const values = all.flatMap((each) => each.stages
      .filter(([, took]) => finite(took))
      .map(([stage, took]) => ({ night: each.night, stage, seconds: took, rank: rank(stage), took: plot.duration(took) })));
    if (!values.length) return null;
    return plot.figure({
      title: "Stages", caption: "Seconds by stage, one on the other; a gap is a night without data.", height: 220,
      spec: () => ({
        data: { values },
        mark: { type: "bar", width: { band: 1 }, binSpacing: 0 },
        encoding: {
          x: { ...plot.TIME, timeUnit: "utcyearmonthdate", bandPosition: 0 },
          y: { field: "seconds", type: "quantitative", title: "seconds", stack: true },
          color: { field: "stage", type: "nominal", title: null, scale: { domain: [...new Set(values.map((each) => each.stage))].sort((a, b) => rank(a) - rank(b)) } },
          order: { field: "rank", type: "quantitative" },
          tooltip: [TIP, { field: "stage", type: "nominal" }, { field: "took", type: "nominal" }],
        },
      }),
    });
  }

  function errors(all) {
    const known = all.filter((each) => each.error !== null);
    if (!known.length) return null;
    const infinite = (error) => !(error < BEYOND);
    const sizes = known.map((each) => each.error).filter((error) => !infinite(error) && error > 0);
    const least = Math.max(Math.min(...sizes, 0.1) / 2, 1 / BEYOND);
    const most = Math.min(Math.max(...sizes, 10) * 2, BEYOND);
    const values = known.map((each) => ({
      night: each.night, status: each.status, said: infinite(each.error) ? "infinite" : String(Number(each.error.toPrecision(3))),
      // none and infinite have no place on a logarithmic scale: they lie on its edges
      error: infinite(each.error) ? most : Math.max(each.error, least),
      off: each.error <= 1 ? "within" : infinite(each.error) ? "infinite" : "beyond",
    }));
    return plot.figure({
      title: "Error", caption: "In units of the tolerance, logarithmic; above the line at 1 it fails.", height: 180,
      spec: () => ({
        data: { values },
        encoding: { x: plot.TIME },
        layer: [
          { data: { values: [{ one: 1 }] }, mark: { type: "rule", strokeDash: [4, 3], color: plot.colour("fail") }, encoding: { x: null, y: { datum: 1 } } },
          {
            mark: { type: "point", filled: true, size: 28 },
            encoding: {
              y: { field: "error", type: "quantitative", scale: { type: "log", domain: [least, most] }, title: "error ÷ tolerance", axis: { format: "~g", values: [1e-6, 1e-4, 0.01, 0.1, 1, 10, 100, 1e4, 1e6] } },
              color: { field: "off", type: "nominal", title: null, scale: { domain: ["within", "beyond", "infinite"], range: [plot.colour("pass"), plot.colour("fail"), plot.colour("error")] } },
              shape: { field: "off", type: "nominal", title: null, scale: { domain: ["within", "beyond", "infinite"], range: ["circle", "square", "triangle-up"] } },
              tooltip: [TIP, { field: "said", type: "nominal", title: "error" }, { field: "status", type: "nominal" }],
            },
          },
        ],
      }),
    });
  }

  const steps = [...document.querySelectorAll("[data-step]")]
    .map((row) => ({ night: row.dataset.step, measure: row.dataset.measure, kind: row.dataset.kind }))
    .filter((step) => step.measure === "execute");

  function speed(all) {
    const values = all.filter((each) => finite(each.execute)).map((each) => ({ ...each, stages: null, took: plot.duration(each.execute) }));
    if (!values.length) return null;
    const banded = values.some((each) => finite(each.low) && finite(each.high));
    return plot.figure({
      title: "Execution", caption: "Seconds a night in its noise band; no band: too few nights to say. Upright lines are steps.", height: 200,
      spec: () => ({
        data: { values },
        encoding: { x: plot.TIME },
        layer: [
          ...(banded ? [{ transform: [{ filter: "isValid(datum.low) && isValid(datum.high)" }], mark: { type: "area", color: plot.colour("c1"), opacity: 0.18 }, encoding: { y: { field: "low", type: "quantitative" }, y2: { field: "high" } } }] : []),
          ...(steps.length ? [{ data: { values: steps }, mark: { type: "rule", strokeWidth: 1.5 }, encoding: { x: plot.TIME, color: { field: "kind", type: "nominal", title: null, scale: { domain: ["slower", "faster"], range: [plot.colour("fail"), plot.colour("pass")] } }, strokeDash: { field: "kind", type: "nominal", title: null, scale: { domain: ["slower", "faster"], range: [[1, 0], [5, 3]] } }, tooltip: [TIP, { field: "kind", type: "nominal" }] } }] : []),
          { mark: { type: "point", filled: true, size: 18, color: plot.colour("c1") }, encoding: { y: { field: "execute", type: "quantitative", title: "seconds", scale: { zero: false } }, tooltip: [TIP, { field: "took", type: "nominal" }, { field: "status", type: "nominal" }] } },
        ],
      }),
    });
  }

  // --- the same as a table, made when it is opened

  function table(all) {
    const names = [...new Set(all.flatMap((each) => each.stages.map(([stage]) => stage)))].sort((a, b) => rank(a) - rank(b));
    const details = el("details", { class: "numbers" }, el("summary", { text: "The numbers" }));
    details.addEventListener("toggle", () => {
      if (details.children.length > 1) return;
      const columns = ["Night", "Status", "Error ÷ tolerance", "Lowering", "Execution", ...names];
      const cell = (text) => el("td", { class: "num", text });
      details.append(el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Numbers by night" }, el("table", {},
        el("thead", {}, el("tr", {}, ...columns.map((text, at) => el("th", { scope: "col", class: at > 1 ? "num" : null, text })))),
        el("tbody", {}, ...[...all].reverse().filter((each) => each.status !== "none").map((each) => {
          const took = new Map(each.stages);
          return el("tr", {}, el("th", { scope: "row", text: each.night }), el("td", { text: each.status }),
            cell(each.error === null ? "–" : String(Number(each.error.toPrecision(3)))), cell(plot.duration(each.lowering)), cell(plot.duration(each.execute)),
            ...names.map((name) => cell(plot.duration(took.get(name) ?? null))));
        })))));
    });
    return details;
  }

  function charts() {
    const all = nights();
    const figures = [stages(all), errors(all), speed(all)].filter(Boolean);
    plots.replaceChildren(...figures.map((each) => each.node), ...(all.length ? [table(all)] : []));
    if (!figures.length) plots.append(el("p", { text: "No night has left a number." }));
  }

  async function begin() {
    for (const month of months.slice(-EAGER)) await read(month);
    await plot.someone;
    await Promise.all(months.map(read));
    charts();
  }
  begin().catch((error) => problem(strip, error));
})();
