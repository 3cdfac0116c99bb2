"use strict";
// Charts: Vega-Lite, whose script is loaded when a chart comes into sight of somebody who reads.

lighthouse.plot = (() => {
  const { el, script } = lighthouse;

  /** Until the reader does something, a page loads nothing heavy. */
  const someone = new Promise((resolve) => {
    for (const kind of ["pointermove", "pointerdown", "scroll", "keydown", "touchstart", "focusin", "beforeprint"]) {
      addEventListener(kind, resolve, { once: true, passive: true, capture: true });
    }
  });

  const seen = (node) => new Promise((resolve) => {
    const watcher = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      watcher.disconnect();
      resolve();
    }, { rootMargin: "300px" });
    watcher.observe(node);
    addEventListener("beforeprint", resolve, { once: true });
  });

  let library = null;
  const vega = () => (library ??= script("assets/charts.js"));

  const probe = el("span", { class: "vh", "aria-hidden": "true" });
  document.body.append(probe);
  /** What a custom property comes to in the theme of now. */
  function colour(name) {
    probe.className = `vh ink-${name}`;
    return getComputedStyle(probe).color;
  }

  const config = () => ({
    background: "transparent",
    font: getComputedStyle(document.body).fontFamily,
    axis: {
      labelColor: colour("quiet"), titleColor: colour("quiet"), domainColor: colour("line"), tickColor: colour("line"),
      gridColor: colour("line"), gridOpacity: 0.5, labelFontSize: 11, titleFontSize: 11, titleFontWeight: "normal",
    },
    legend: { labelColor: colour("text"), titleColor: colour("quiet"), labelFontSize: 11, titleFontSize: 11, titleFontWeight: "normal", orient: "bottom", columns: 4, symbolLimit: 40, labelLimit: 240 },
    view: { stroke: null },
    range: { category: ["c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9", "c10"].map(colour) },
  });

  // the handler that comes with the library writes HTML
  const tip = el("div", { class: "tip", "aria-hidden": "true", hidden: true });
  document.body.append(tip);
  function tooltip(_, event, __, value) {
    tip.hidden = value === null || value === undefined || value === "";
    if (tip.hidden) return;
    const rows = typeof value === "object" ? Object.entries(value) : [["", value]];
    tip.replaceChildren(...rows.map(([name, each]) => el("div", {}, el("span", { text: name }), " ", el("b", { text: String(each) }))));
    const left = Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8);
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${event.clientY + 14}px`;
  }

  const TIME = { field: "night", type: "temporal", scale: { type: "utc" }, title: null, axis: { format: "%d %b %y", labelOverlap: true, grid: false, tickCount: 8 } };

  /**
   * A figure: title, chart, and what it says in words.
   *
   * `spec()` gives the Vega-Lite specification for what is to be shown now, null for nothing. Texts from results may
   * be in its data and in domains of scales, and nowhere else: Vega-Lite makes code of `sort`.
   */
  function figure({ title, caption, height = 200, spec }) {
    const canvas = el("div", { class: `canvas h-${height}` });
    const node = el("figure", { class: "plot" }, el("figcaption", {}, el("b", { text: title }), caption ? ` ${caption}` : ""), canvas);
    let view = null;
    let ready = false;

    async function draw() {
      if (!ready) return;
      await vega();
      const shown = spec();
      if (!shown) {
        view?.finalize();
        view = null;
        canvas.removeAttribute("role");
        canvas.replaceChildren(el("p", { class: "quiet", text: "No data for this choice." }));
        return;
      }
      const full = {
        width: "container", height, autosize: { type: "fit-x", contains: "padding" },
        description: `${title}. ${caption ?? ""}`, ...shown, config: config(),
      };
      const next = await window.vegaEmbed(canvas, full, {
        mode: "vega-lite", ast: true, actions: false, defaultStyle: false, renderer: "svg", tooltip,
      });
      // one picture with a description: a thousand marks, each with a name, tell nobody anything
      canvas.setAttribute("role", "img");
      canvas.removeAttribute("aria-roledescription");
      canvas.setAttribute("aria-label", full.description);
      canvas.querySelector("svg").setAttribute("aria-hidden", "true");
      view?.finalize();
      view = next;
      node.dataset.drawn = "";
    }
    const safely = () => draw().catch((error) => lighthouse.problem(canvas, error));
    Promise.all([someone, seen(node)]).then(() => {
      ready = true;
      return safely();
    });
    document.addEventListener("themechange", safely);
    return { node, draw: safely };
  }

  /** Numbers that JSON has no form for travel as texts. */
  const number = (value) => (value === null || value === undefined ? null : Number(value));

  function duration(seconds) {
    if (seconds === null) return "–";
    if (!Number.isFinite(seconds)) return String(seconds);
    const [factor, unit] = seconds < 1e-6 ? [1e9, "ns"] : seconds < 1e-3 ? [1e6, "µs"] : seconds < 1 ? [1e3, "ms"] : [1, "s"];
    return `${Number((seconds * factor).toPrecision(3))} ${unit}`;
  }

  return { figure, colour, number, duration, someone, seen, TIME };
})();
