"use strict";
// Two nights beside each other; the kinds are those of dashboards/kinds.py.

(() => {
  const { el, load, cells, badge, parse, cellHref, state, plural, count, statusOf, problem, LETTERS } = lighthouse;
  const box = document.getElementById("compare");
  if (!box) return;

  const KINDS = ["regression", "new-failure", "still-failing", "fixed", "new-pass", "appeared", "disappeared"];
  const OPEN = new Set(["regression", "new-failure", "fixed"]);
  const RED = "FEX";
  const GREEN = "Px";

  function kindOf(before, after, same) {
    const judged = RED.includes(before) || GREEN.includes(before);
    if (RED.includes(after)) {
      if (!judged) return "new-failure";
      if (GREEN.includes(before)) return "regression";
      return same ? "still-failing" : "new-failure";
    }
    if (GREEN.includes(after)) {
      if (RED.includes(before)) return "fixed";
      return judged ? null : "new-pass";
    }
    if (before === "-" && after !== "-") return "appeared";
    if (judged || (before !== "-" && after === "-")) return "disappeared";
    return null;
  }

  function changes(a, b) {
    const was = new Map(a.ids.map((id, index) => [id, index]));
    const now = new Map(b.ids.map((id, index) => [id, index]));
    const found = [];
    for (const id of new Set([...a.ids, ...b.ids])) {
      const i = was.get(id);
      const j = now.get(id);
      const before = i === undefined ? "-" : a.letters[i];
      const after = j === undefined ? "-" : b.letters[j];
      const same = before === after && i !== undefined && j !== undefined &&
        a.phases[i] === b.phases[j] && a.alike[i] === b.alike[j];
      const kind = kindOf(before, after, same);
      if (!kind) continue;
      const known = j === undefined ? [a, i] : [b, j];
      found.push({
        id, before, after, kind, href: cellHref(id, known[0].hrefs), ...parse(id),
        stack: known[0].stacks[known[1]],
        phase: known[0].phases[known[1]],
        message: known[0].messages[known[1]],
      });
    }
    return found.sort((x, y) => (x.id < y.id ? -1 : 1));
  }

  const results = el("div", { class: "results" });
  const filterBox = el("div");
  let openKinds = new Map();

  function show(all, rows) {
    const groups = KINDS.map((kind) => [kind, rows.filter((index) => all[index].kind === kind)]);
    results.replaceChildren(...groups.filter(([, members]) => members.length).map(([kind, members]) => {
      const details = el("details", { class: `kind n-${kind}`, "data-kind": kind, open: openKinds.get(kind) ?? OPEN.has(kind) },
        el("summary", {}, el("span", { class: `tag k-${kind}`, text: kind.replace("-", " ") }), " ",
          el("span", { class: "total", text: plural(members.length, "cell") })));
      const fill = () => {
        if (details.open && details.children.length === 1) details.append(...summary(all, members), ...list(all, kind, members));
      };
      details.addEventListener("toggle", () => {
        openKinds.set(kind, details.open);
        fill();
      });
      fill();
      return details;
    }));
    if (!results.children.length) results.append(el("p", { text: "Nothing differs." }));
  }

  /** Where the most of them are. */
  function summary(all, members) {
    const places = new Map();
    for (const index of members) {
      const each = all[index];
      const place = each.pipeline + (each.phase ? ` at ${each.phase}` : "");
      places.set(place, (places.get(place) ?? 0) + 1);
    }
    const ranked = [...places].sort((x, y) => y[1] - x[1]);
    const shown = ranked.slice(0, 5).map(([place, number]) => `${place} (${count(number)})`);
    if (ranked.length > 5) shown.push(plural(ranked.length - 5, "more place"));
    return [el("p", { class: "where", text: shown.join(", ") })];
  }

  function list(all, kind, members) {
    const row = (index) => {
      const each = all[index];
      return el("tr", {},
        el("th", { scope: "row" }, el("a", { href: each.href, text: each.id })),
        el("td", {}, badge(each.before)), el("td", {}, badge(each.after)),
        el("td", { class: "phase", text: each.phase }),
        el("td", { class: "long", text: each.message }));
    };
    return cells.table({
      caption: `${kind.replace("-", " ")}: cells`,
      columns: [
        { label: "Cell", of: (i) => all[i].id },
        { label: "Before", of: (i) => statusOf(all[i].before) },
        { label: "After", of: (i) => statusOf(all[i].after) },
        { label: "Phase", of: (i) => all[i].phase },
        { label: "Message", of: (i) => all[i].message },
      ],
      rows: members,
      row,
    });
  }

  // --- which nights

  const chosen = () => {
    const now = state.get();
    return [now.get("before") ?? box.dataset.before, now.get("after") ?? box.dataset.after];
  };
  let drawn = "";
  let listening = new AbortController();

  async function draw() {
    const [before, after] = chosen();
    if (drawn === `${before} ${after}`) return;
    drawn = `${before} ${after}`;
    if (!before) {
      results.replaceChildren(el("p", { text: "There is one night only: nothing to compare with." }));
      return;
    }
    const all = changes(await cells.night(before), await cells.night(after));
    // other nights may have been chosen in the meantime
    if (drawn !== `${before} ${after}`) return;
    listening.abort();
    listening = new AbortController();
    openKinds = new Map();
    const { form, summary: found } = cells.filters({
      label: "Filters",
      signal: listening.signal,
      total: all.length,
      fields: [
        { name: "pipeline", label: "Pipeline", kind: "one", of: (i) => all[i].pipeline },
        { name: "pool", label: "Pool", kind: "one", of: (i) => all[i].pool },
        { name: "workload", label: "Workload", kind: "one", of: (i) => all[i].workload },
        { name: "stack", label: "Stack", kind: "one", of: (i) => all[i].stack },
        { name: "q", label: "Name has", kind: "text", of: (i) => all[i].id },
        {
          name: "kind", label: "Change", kind: "some", of: (i) => all[i].kind, order: KINDS,
          show: (kind) => [kind.replace("-", " ")],
        },
        {
          name: "status", label: "Status after", kind: "some", of: (i) => all[i].after,
          order: Object.values(LETTERS), show: (letter) => [badge(letter, true), statusOf(letter)],
        },
        { name: "message", label: "Message has", kind: "text", of: (i) => all[i].message },
      ],
      changed: (rows) => show(all, rows),
    });
    filterBox.replaceChildren(form, found);
  }

  const again = () => draw().catch((error) => problem(results, error));

  async function begin() {
    const nights = (await load("nights")).nights.map((each) => each.night).reverse();
    const select = (name, label) => {
      const node = el("select", { id: `night-${name}` }, ...nights.map((night) => el("option", { value: night, text: night })));
      const take = () => (node.value = chosen()[name === "before" ? 0 : 1]);
      node.addEventListener("change", () => {
        state.set({ [name]: node.value });
        again();
      });
      addEventListener("hashchange", take);
      take();
      return el("label", { class: "field" }, el("span", { text: label }), node);
    };
    const swap = el("button", { type: "button", text: "Swap" });
    swap.addEventListener("click", () => {
      const [before, after] = chosen();
      state.set({ before: after, after: before });
      dispatchEvent(new Event("hashchange"));
    });
    box.append(el("div", { class: "filters nights" }, select("before", "Before"), select("after", "After"), swap), filterBox, results);
    addEventListener("hashchange", again);
    await draw();
  }
  begin().catch((error) => problem(box, error));
})();
