"use strict";
// Coverage and speed over the nights.

(() => {
  const { el, load, parse, plot, state, problem } = lighthouse;
  const coverageBox = document.getElementById("coverage-chart");
  const speedBox = document.getElementById("speed-chart");
  const TIP = { field: "night", type: "nominal", title: "night" };
  const WHAT = ["declared", "runnable", "passing"];

  function select(name, label, names, first, changed) {
    const node = el("select", { id: `by-${name}` }, ...names.map((each) => el("option", { value: each, text: each || first })));
    const take = () => {
      const wanted = state.get().get(name) ?? names[0];
      node.value = names.includes(wanted) ? wanted : names[0];
    };
    node.addEventListener("change", () => {
      state.set({ [name]: node.value === names[0] ? "" : node.value });
      changed();
    });
    addEventListener("hashchange", () => {
      take();
      changed();
    });
    take();
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
        const values = page.nights.flatMap((night, i) => WHAT.map((what) => ({
          night, what, cells: missing.has(night) ? null : chosen[what][i],
        })));
        return {
          data: { values },
          mark: { type: "line", interpolate: "step-after", invalid: "break-paths-show-path-domains" },
          encoding: {
            x: plot.TIME,
            y: { field: "cells", type: "quantitative", title: "cells" },
            color: { field: "what", type: "ordinal", title: null, sort: WHAT, scale: { domain: WHAT, range: [plot.colour("quiet"), plot.colour("c1"), plot.colour("pass")] } },
            strokeDash: { field: "what", type: "ordinal", sort: WHAT, title: null, scale: { domain: WHAT, range: [[1, 0], [6, 3], [1, 0]] } },
            strokeWidth: { field: "what", type: "ordinal", sort: WHAT, title: null, scale: { domain: WHAT, range: [1, 1.5, 2.5] } },
            tooltip: [TIP, { field: "what", type: "nominal" }, { field: "cells", type: "quantitative" }],
          },
        };
      },
    });
    coverageBox.append(el("div", { class: "filters" }, field), figure.node);
  }

  /** A figure for each stack, a line for each pool: with all in one, none could be told. */
  function speed(page) {
    if (!speedBox) return;
    const pools = [...new Set(page.speed.map((each) => each.pool))];
    const figures = [];
    const again = () => figures.forEach((figure) => figure.draw());
    const [pool, poolField] = select("pool", "Pool", ["", ...pools], "all", again);
    const [measure, measureField] = select("time", "Time", ["execute", "lowering"], "", again);
    for (const stack of new Set(page.speed.map((each) => each.stack))) {
      const mine = page.speed.filter((each) => each.stack === stack);
      figures.push(plot.figure({
        title: stack, caption: "Geometric mean over cells of the time by the cell's median: 1.1 is 10 % slower.", height: 180,
        spec: () => {
          const chosen = mine.filter((each) => !pool.value || each.pool === pool.value);
          const values = chosen.flatMap((each) => page.nights.map((night, i) => ({ night, pool: each.pool, time: plot.number(each[measure.value][i]) })));
          if (values.every((each) => each.time === null)) return null;
          const steps = page.steps.filter((step) => step.measure === measure.value && parse(step.cell).pool === pool.value)
            .map((step) => ({ night: step.night, kind: step.kind, cell: step.cell }));
          return {
            layer: [
              ...(steps.length ? [{
                data: { values: steps },
                mark: { type: "rule", strokeDash: [3, 3], color: plot.colour("fail") },
                encoding: { x: plot.TIME, tooltip: [TIP, { field: "kind", type: "nominal" }, { field: "cell", type: "nominal" }] },
              }] : []),
              {
                data: { values },
                mark: { type: "line", strokeWidth: 1.4, invalid: "break-paths-show-path-domains", point: { size: 6 } },
                encoding: {
                  x: plot.TIME,
                  y: { field: "time", type: "quantitative", title: "× median", scale: { zero: false } },
                  color: { field: "pool", type: "nominal", title: null, scale: { domain: pools }, legend: { values: chosen.map((each) => each.pool) } },
                  tooltip: [TIP, { field: "pool", type: "nominal" }, { field: "time", type: "quantitative", format: ".3f" }],
                },
              },
            ],
          };
        },
      }));
    }
    speedBox.append(el("div", { class: "filters" }, poolField, measureField),
      el("p", { class: "hint", text: "With one pool chosen, upright lines are steps of its cells." }),
      ...figures.map((figure) => figure.node));
  }

  async function begin() {
    await plot.someone;
    const page = await load("trends");
    coverage(page);
    speed(page);
  }
  begin().catch((error) => problem(coverageBox, error));
})();
