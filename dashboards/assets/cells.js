"use strict";
// All cells of a night, and filters over cells: what the main page and comparisons share.

lighthouse.cells = (() => {
  const { el, load, state, parse, plural, count } = lighthouse;

  /** A night's columns, one entry for each cell: `ids`, `letters`, `phases`, `messages`, `alike`, `stacks`,
   * `tiers`; messages that say the same have the same `alike`. */
  async function night(name) {
    const columns = await load(`night/${name}`);
    const list = await load(`cells/${columns.cells}`);
    const letters = [...columns.statuses];
    const phases = new Array(letters.length).fill("");
    const messages = new Array(letters.length).fill("");
    const alike = new Array(letters.length).fill("");
    let next = 0;
    letters.forEach((letter, index) => {
      if (letter === "P") return;
      phases[index] = columns.phases[columns.phase[next]] ?? "";
      messages[index] = columns.messages[columns.message[next]] ?? "";
      alike[index] = columns.alike[columns.message[next]] ?? "";
      next += 1;
    });
    return {
      night: name,
      ids: list.cells,
      hrefs: list.hrefs,
      letters,
      phases,
      messages,
      alike,
      stacks: list.stack.map((index) => list.stacks[index]),
      tiers: list.tier.map((index) => list.tiers[index]),
    };
  }

  /**
   * Filters whose values are in the address.
   *
   * `fields`: `{name, label, kind, of}`. `kind`: `one` (a select), `some` (toggles; values joined
   * by commas; `order` and `show` say how), `text` (a part of what `of` gives, any case).
   * `changed(rows)` gets the indices that are left; `signal` ends listening to the address.
   */
  function filters({ fields, total, changed, label, signal }) {
    const inputs = new Map();
    const summary = el("p", { class: "found", role: "status" });
    const form = el("form", { class: "filters", "aria-label": label });
    form.addEventListener("submit", (event) => event.preventDefault());
    for (const field of fields) {
      field.values = field.kind === "text" ? null : Array.from({ length: total }, (_, i) => field.of(i));
      const make = { one, some, text }[field.kind];
      form.append(make(field));
    }
    const clear = el("button", { type: "button", text: "Clear filters" });
    clear.addEventListener("click", () => {
      state.set(Object.fromEntries(fields.map((field) => [field.name, ""])));
      read();
    });
    form.append(clear);

    function write() {
      state.set(Object.fromEntries(fields.map((field) => [field.name, inputs.get(field.name).get()])));
      apply();
    }

    function one(field) {
      const select = el("select", { id: `by-${field.name}`, onchange: write });
      const names = [...new Set(field.values)].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
      select.append(el("option", { value: "" }));
      for (const name of names) if (name) select.append(el("option", { value: name }));
      inputs.set(field.name, {
        get: () => select.value,
        set(value) {
          if (value && !names.includes(value)) select.append(el("option", { value }));
          select.value = value;
        },
        counts(found) {
          for (const option of select.options) {
            const number = found.get(option.value) ?? 0;
            option.textContent = option.value ? `${option.value} (${count(number)})` : "all";
          }
        },
        test: (value) => (index) => !value || field.values[index] === value,
      });
      return el("label", { class: "field" }, el("span", { text: field.label }), select);
    }

    function some(field) {
      const box = el("fieldset", { class: "field some" }, el("legend", { text: field.label }));
      const present = new Set(field.values);
      const boxes = field.order.filter((value) => present.has(value)).map((value) => {
        const input = el("input", { type: "checkbox", value, onchange: write });
        const number = el("span", { class: "n" });
        box.append(el("label", { class: "toggle" }, input, ...field.show(value), number));
        return { input, number };
      });
      inputs.set(field.name, {
        get: () => boxes.filter((each) => each.input.checked).map((each) => each.input.value).join(","),
        set(value) {
          const wanted = value.split(",");
          for (const each of boxes) each.input.checked = wanted.includes(each.input.value);
        },
        counts(found) {
          for (const each of boxes) each.number.textContent = count(found.get(each.input.value) ?? 0);
        },
        test(value) {
          const wanted = new Set(value.split(",").filter(Boolean));
          return (index) => !wanted.size || wanted.has(field.values[index]);
        },
      });
      return box;
    }

    function text(field) {
      const input = el("input", { type: "search", id: `by-${field.name}`, oninput: write, autocomplete: "off", spellcheck: "false" });
      inputs.set(field.name, {
        get: () => input.value,
        set: (value) => (input.value = value),
        counts: () => undefined,
        test(value) {
          const words = value.toLowerCase().split(/\s+/).filter(Boolean);
          return (index) => {
            if (!words.length) return true;
            const where = field.of(index).toLowerCase();
            return words.every((word) => where.includes(word));
          };
        },
      });
      return el("label", { class: "field" }, el("span", { text: field.label }), input);
    }

    /** Counts beside a value say how many would be left with it and all other filters. */
    function apply() {
      const tests = fields.map((field) => inputs.get(field.name).test(inputs.get(field.name).get()));
      const counts = fields.map(() => new Map());
      const rows = [];
      const add = (at, index) => {
        if (!fields[at].values) return;
        const value = fields[at].values[index];
        counts[at].set(value, (counts[at].get(value) ?? 0) + 1);
      };
      for (let index = 0; index < total; index += 1) {
        const failed = [];
        for (let at = 0; at < tests.length && failed.length < 2; at += 1) {
          if (!tests[at](index)) failed.push(at);
        }
        if (failed.length === 1) add(failed[0], index);
        if (failed.length) continue;
        rows.push(index);
        fields.forEach((_, at) => add(at, index));
      }
      fields.forEach((field, at) => inputs.get(field.name).counts(counts[at]));
      const active = fields.some((field) => inputs.get(field.name).get());
      clear.hidden = !active;
      summary.textContent = active
        ? `${count(rows.length)} of ${plural(total, "cell")}`
        : plural(total, "cell");
      changed(rows, active);
    }

    function read() {
      const now = state.get();
      for (const field of fields) inputs.get(field.name).set(now.get(field.name) ?? "");
      apply();
    }

    addEventListener("hashchange", read, { signal });
    read();
    return { form, summary };
  }

  /** A table of which more and more rows are made, `row(index)` each; sorted by clicks. */
  function table({ caption, columns, rows, row, step = 100 }) {
    const body = el("tbody");
    const more = el("button", { type: "button", class: "more" });
    let order = rows;
    let shown = 0;
    function grow(number) {
      body.append(...order.slice(shown, shown + number).map(row));
      shown = Math.min(shown + number, order.length);
      more.hidden = shown >= order.length;
      more.textContent = `Show ${count(Math.min(5 * step, order.length - shown))} more of ${count(order.length - shown)}`;
    }
    more.addEventListener("click", () => grow(5 * step));
    const heads = columns.map((column) => {
      const head = el("th", { scope: "col" });
      const button = el("button", { type: "button", class: "sort", text: column.label });
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const sign = down ? -1 : 1;
        order = [...rows].sort((a, b) => sign * column.of(a).localeCompare(column.of(b), "en", { numeric: true }));
        body.replaceChildren();
        shown = 0;
        grow(step);
      });
      head.append(button);
      return head;
    });
    grow(step);
    return [
      el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption },
        el("table", {}, el("caption", { class: "vh", text: caption }), el("thead", {}, el("tr", {}, ...heads)), body)),
      more,
    ];
  }

  return { night, filters, table, parse };
})();
