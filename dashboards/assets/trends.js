"use strict";
// Coverage and speed over the nights.

(() => {
  const { el, load, parse, plot, state, problem } = lighthouse;
  const coverageBox = document.getElementById("coverage-chart");
  const speedBox = document.getElementById("speed-chart");
  const TIP = { field: "night", type: "nominal", title: "night" };

  function select(name, label, names, first, changed) {
    const node = el("select", { id: `by-${name}` }, ...names.map((each) => el("option", { value: each, text: each || first })));
    node.value = names.includes(state.get().get(name)) ? state.get().get(name) : names[0];
    node.addEventListener("change", () => {
      state.set({ [name]: node.value === names[0] ? "" : node.value });
      changed();
    });
    return [node, el("label", { class: "field" }, el("span", { text: label }), node)];
  }

  function coverage(page) {
    if (!page.coverage.length) return;
    const names = page.coverage.map((each) => each.name);
    const missing = new Set(page.missing);
    let figure = null;
    const [node, field] = select("of", "Of", names, "", () => figure.draw());
    figure = plot.figure({
      title: "Cells", caption: "Declared, of those runnable, of those passing; a gap is a night that did not happen.", height: 220,
      spec: () => {
        const chosen = page.coverage.find((each) => each.name === node.value);
        const values = page.nights.flatMap((night, i) => ["declared", "runnable", "passing"].map((what) => ({
          night, what, cells: missing.has(night) ? null : chosen[what][i],
        })));
        return {
          data: { values },
          mark: { type: "line", interpolate: "step-after", invalid: "break-paths-show-path-domains", point: { size: 8 } },
          encoding: {
            x: plot.TIME,
            y: { field: "cells", type: "quantitative", title: "cells" },
            color: { field: "what", type: "nominal", title: null, sort: ["declared", "runnable", "passing"], scale: { domain: ["declared", "runnable", "passing"], range: [plot.colour("quiet"), plot.colour("c1"), plot.colour("pass")] } },
            strokeDash: { field: "what", type: "nominal", title: null, scale: { domain: ["declared", "runnable", "passing"], range: [[1, 0], [6, 2], [2, 2]] } },
            tooltip: [TIP, { field: "what", type: "nominal" }, { field: "cells", type: "quantitative" }],
          },
        };
      },
    });
    coverageBox.append(el("div", { class: "filters" }, field), figure.node);
  }

  function speed(page) {
    if (!speedBox) return;
    const unique = (values) => ["", ...new Set(values)];
    let figure = null;
    const again = () => figure.draw();
    const [stack, stackField] = select("stack", "Stack", unique(page.speed.map((each) => each.stack)), "all", again);
    const [pool, poolField] = select("pool", "Pool", unique(page.speed.map((each) => each.pool)), "all", again);
    const [what, whatField] = select("time", "Time", ["execute", "lowering"], "", again);
    figure = plot.figure({
      title: "Time, relative to each cell's median", caption: "Geometric mean over cells: 1.1 is 10 % slower. Upright lines are steps of single cells on the pool.", height: 260,
      spec: () => {
        const chosen = page.speed.filter((each) => (!stack.value || each.stack === stack.value) && (!pool.value || each.pool === pool.value));
        const values = chosen.flatMap((each) => page.nights.map((night, i) => ({ night, of: `${each.stack} on ${each.pool}`, time: plot.number(each[what.value][i]) })));
        const steps = pool.value ? page.steps.filter((step) => parse(step.cell).pool === pool.value).map((step) => ({ night: step.night, kind: step.kind, cell: step.cell })) : [];
        return {
          layer: [
            { data: { values: steps }, mark: { type: "rule", strokeDash: [3, 3], color: plot.colour("fail") }, encoding: { x: plot.TIME, tooltip: [TIP, { field: "kind", type: "nominal" }, { field: "cell", type: "nominal" }] } },
            {
              data: { values },
              mark: { type: "line", invalid: "break-paths-show-path-domains", point: { size: 8 } },
              encoding: {
                x: plot.TIME,
                y: { field: "time", type: "quantitative", title: "× median", scale: { zero: false } },
                color: { field: "of", type: "nominal", title: null },
                strokeDash: { field: "of", type: "nominal", title: null },
                tooltip: [TIP, { field: "of", type: "nominal", title: "what" }, { field: "time", type: "quantitative", format: ".3f" }],
              },
            },
          ],
        };
      },
    });
    speedBox.append(el("div", { class: "filters" }, stackField, poolField, whatField), figure.node);
  }

  async function begin() {
    await plot.someone;
    const page = await load("trends");
    coverage(page);
    speed(page);
  }
  begin().catch((error) => problem(coverageBox, error));
})();
