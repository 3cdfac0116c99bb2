"use strict";
// The main page: pipelines open to their cells, and filters over all cells of the night.

(() => {
  const { el, cells, badge, parse, cellHref, state, plural, statusOf, problem, LETTERS } = lighthouse;
  const grid = document.getElementById("grid");
  const finder = document.getElementById("finder");
  if (!grid) return;
  const night = grid.dataset.night;
  const pools = [...grid.tHead.rows[0].cells].slice(1).map((head) => head.textContent.trim());
  let loaded = null;
  const columns = () => (loaded ??= cells.night(night));

  // --- a pipeline's rows: workload.variant × pools

  function square(all, index) {
    const letter = all.letters[index];
    const phase = all.phases[index];
    const cell = parse(all.ids[index]);
    const status = statusOf(letter);
    const link = el("a", {
      class: "sq",
      href: cellHref(all.ids[index], all.hrefs),
      title: all.messages[index] || null,
      "aria-label": `${cell.workload}.${cell.variant} on ${cell.pool}: ${status}${phase ? ` at ${phase}` : ""}`,
    }, badge(letter, true), phase ? el("span", { class: "phase", text: phase }) : "");
    return el("td", { class: `sq-${status}` }, link);
  }

  function rowsOf(all, pipeline) {
    const rows = new Map();
    all.ids.forEach((id, index) => {
      const cell = parse(id);
      if (cell.pipeline !== pipeline) return;
      const name = `${cell.workload}.${cell.variant}`;
      if (!rows.has(name)) rows.set(name, new Map());
      rows.get(name).set(cell.pool, index);
    });
    return [...rows].map(([name, byPool]) => el("tr", { class: "sub", "data-of": pipeline },
      el("th", { scope: "row", text: name }),
      ...pools.map((pool) => byPool.has(pool)
        ? square(all, byPool.get(pool))
        : el("td", { class: "void" }, el("span", { class: "vh", text: "no such cell" })))));
  }

  const opened = () => (state.get().get("open") ?? "").split(",").filter(Boolean);

  async function open(row, wanted) {
    const pipeline = row.dataset.pipeline;
    const button = row.querySelector("button");
    const is = button.getAttribute("aria-expanded") === "true";
    if (is === wanted) return;
    button.setAttribute("aria-expanded", String(wanted));
    if (wanted) {
      const rows = rowsOf(await columns(), pipeline);
      // it may have been closed again in the meantime
      if (button.getAttribute("aria-expanded") === "true") row.after(...rows);
      lighthouse.announce(`${pipeline}: ${plural(rows.length, "row")}`);
    } else {
      for (const each of [...grid.querySelectorAll("tr.sub")]) {
        if (each.dataset.of === pipeline) each.remove();
      }
    }
    grid.refresh();
  }

  const groups = [...grid.querySelectorAll("tr[data-pipeline]")];
  for (const row of groups) {
    const pipeline = row.dataset.pipeline;
    const button = el("button", { type: "button", class: "open", "aria-expanded": "false", "aria-label": `Cells of ${pipeline}` });
    button.addEventListener("click", () => {
      const wanted = button.getAttribute("aria-expanded") !== "true";
      const others = opened().filter((name) => name !== pipeline);
      state.set({ open: (wanted ? [...others, pipeline] : others).join(",") });
      open(row, wanted).catch((error) => problem(finder, error));
    });
    row.cells[0].prepend(button);
  }
  lighthouse.grid(grid);

  // --- filters

  const results = el("div", { class: "results" });

  function list(all, rows) {
    const row = (index) => el("tr", {},
      el("td", {}, badge(all.letters[index])),
      el("th", { scope: "row" }, el("a", { href: cellHref(all.ids[index], all.hrefs), text: all.ids[index] })),
      el("td", { class: "phase", text: all.phases[index] }),
      el("td", { class: "long", text: all.messages[index] }));
    results.replaceChildren(...cells.table({
      caption: "Cells found",
      columns: [
        { label: "Status", of: (i) => statusOf(all.letters[i]) },
        { label: "Cell", of: (i) => all.ids[i] },
        { label: "Phase", of: (i) => all.phases[i] },
        { label: "Message", of: (i) => all.messages[i] },
      ],
      rows,
      row,
    }));
  }

  const NAMES = ["status", "phase", "pipeline", "pool", "stack", "message", "q"];
  let begun = false;

  async function begin() {
    if (begun) return;
    begun = true;
    try {
      const all = await columns();
      const parsed = all.ids.map(parse);
      const { form, summary } = cells.filters({
        label: "Filters",
        total: all.ids.length,
        fields: [
          {
            name: "status", label: "Status", kind: "some", of: (i) => all.letters[i],
            order: Object.values(LETTERS), show: (letter) => [badge(letter, true), statusOf(letter)],
          },
          { name: "pipeline", label: "Pipeline", kind: "one", of: (i) => parsed[i].pipeline },
          { name: "pool", label: "Pool", kind: "one", of: (i) => parsed[i].pool },
          { name: "stack", label: "Stack", kind: "one", of: (i) => all.stacks[i] },
          { name: "phase", label: "Phase", kind: "one", of: (i) => all.phases[i] },
          { name: "message", label: "Message has", kind: "text", of: (i) => all.messages[i] },
          { name: "q", label: "Name has", kind: "text", of: (i) => all.ids[i] },
        ],
        changed: (rows) => list(all, rows),
      });
      finder.replaceChildren(form, summary, results);
    } catch (error) {
      problem(finder, error);
    }
  }

  const start = el("button", { type: "button", text: "Search and filter all cells" });
  start.addEventListener("click", async () => {
    await begin();
    finder.querySelector("input, select")?.focus();
  });
  finder.append(start);

  async function follow() {
    const now = state.get();
    const wanted = opened();
    for (const row of groups) await open(row, wanted.includes(row.dataset.pipeline));
    if (NAMES.some((name) => now.has(name))) {
      const first = !begun;
      await begin();
      const target = document.getElementById("find-cells");
      target.scrollIntoView();
      if (!first || document.activeElement !== document.body) finder.querySelector("input, select")?.focus({ preventScroll: true });
    }
  }
  addEventListener("hashchange", () => follow().catch((error) => problem(finder, error)));
  follow().catch((error) => problem(finder, error));
})();
