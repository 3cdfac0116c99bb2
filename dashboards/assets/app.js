"use strict";
// What every page uses. Texts from results become text nodes and attributes, never HTML.

window.lighthouse = (() => {
  const root = document.body.dataset.root;
  const absolute = (path) => new URL(root + path, document.baseURI).href;

  const isOurs = (address) => {
    const full = new URL(address, document.baseURI).href;
    return full.startsWith(absolute("data/")) || full === absolute("assets/charts.js");
  };
  if (window.trustedTypes) {
    trustedTypes.createPolicy("default", {
      // libraries empty an element so; there is no other HTML
      createHTML: (text) => (text === "" ? "" : null),
      createScriptURL: (address) => (isOurs(address) ? address : null),
    });
  }

  /** An element. `attributes`: `text` and `on…` are properties, false and null are left out. */
  function el(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "text") node.textContent = value;
      else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (value === true) node.setAttribute(name, "");
      else if (value !== false && value !== null && value !== undefined) {
        node.setAttribute(name, value);
      }
    }
    node.append(...children.filter((child) => child !== null && child !== ""));
    return node;
  }

  // --- data: a page from disk cannot fetch, but it can run a script that hands data over

  const arrived = new Map();
  const asked = new Map();
  const data = (name, value) => arrived.set(name, value);

  function script(path) {
    return new Promise((resolve, reject) => {
      const node = document.createElement("script");
      node.onload = resolve;
      node.onerror = () => reject(new Error(`${path} cannot be read`));
      node.src = root + path;
      document.head.append(node);
    });
  }

  function load(name) {
    if (!asked.has(name)) {
      const path = `data/${name.split("/").map(encodeURIComponent).join("/")}.js`;
      asked.set(name, script(path).then(() => {
        if (!arrived.has(name)) throw new Error(`${path} does not hold ${name}`);
        return arrived.get(name);
      }));
    }
    return asked.get(name);
  }

  // --- cells

  const LETTERS = { pass: "P", fail: "F", error: "E", miss: "M", skip: "S", xfail: "x", xpass: "X", none: "-" };
  const STATUSES = new Map(Object.entries(LETTERS).map(([status, letter]) => [letter, status]));
  const statusOf = (letter) => STATUSES.get(letter) ?? "none";

  function badge(letter, hidden = false) {
    const status = statusOf(letter);
    const node = el("span", { class: `st st-${status}`, title: status },
      el("span", { "aria-hidden": "true", text: letter }));
    if (!hidden) node.append(el("span", { class: "vh", text: status }));
    else node.setAttribute("aria-hidden", "true");
    return node;
  }

  /** `pipeline.workload.variant@pool` in parts. */
  function parse(id) {
    const at = id.indexOf("@");
    const parts = id.slice(0, at).split(".");
    const pipeline = parts.shift() ?? "";
    const variant = parts.pop() ?? "";
    return { pipeline, workload: parts.join("."), variant, pool: id.slice(at + 1) };
  }

  /** A cell's page; `hrefs` has those whose names are not fit for addresses. */
  function cellHref(id, hrefs = {}) {
    if (Object.hasOwn(hrefs, id)) return root + hrefs[id];
    const cell = parse(id);
    const key = `${cell.variant}@${cell.pool}`;
    return `${root}cells/${[cell.pipeline, cell.workload, key].map(encodeURIComponent).join("/")}.html`;
  }

  // --- the address: `#status=F&pool=intel-cpu` is what is shown, `#news` is a place

  const state = {
    get: () => new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : ""),
    /** Puts names and values into the address; empty ones leave it. */
    set(changes) {
      const now = state.get();
      for (const [name, value] of Object.entries(changes)) {
        if (value) now.set(name, value);
        else now.delete(name);
      }
      const text = now.toString();
      if (text === state.get().toString()) return;
      history.replaceState(null, "", text ? `#${text}` : location.href.split("#")[0]);
    },
  };

  // --- words for screen readers

  const live = document.getElementById("live");
  function announce(text) {
    live.textContent = "";
    setTimeout(() => (live.textContent = text), 50);
  }

  const count = (number) => number.toLocaleString("en");
  const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

  function problem(box, error) {
    box.replaceChildren(el("p", { class: "note warn", role: "alert", text: `${error.message}: the site is not whole.` }));
  }

  return { root, el, data, load, script, LETTERS, statusOf, badge, parse, cellHref, state, announce, count, plural, problem };
})();

// --- age: the page cannot know that it was left behind, but its reader's clock does

(() => {
  const { el, load } = lighthouse;
  const tools = document.getElementById("tools");
  const box = el("p", { class: "age" });
  tools.append(box);

  function words(hours) {
    if (hours < 1) return lighthouse.plural(Math.max(0, Math.round(hours * 60)), "minute");
    if (hours < 48) return lighthouse.plural(Math.round(hours), "hour");
    return lighthouse.plural(Math.round(hours / 24), "day");
  }

  function show(started, expected) {
    const hours = (Date.now() - Date.parse(started)) / 3.6e6;
    if (!Number.isFinite(hours)) return;
    const late = hours > expected;
    const when = `${started.slice(0, 10)} ${started.slice(11, 16)} UTC`;
    box.replaceChildren("Newest run ", el("time", { datetime: started, title: when, text: `${words(hours)} ago` }));
    box.classList.toggle("late", late);
    if (!late) return;
    box.append(", late");
    const text = `The newest run started ${words(hours)} ago, ${when}; one is expected every ${words(expected)}. ` +
      "A night did not happen, or this page was not built again: what it says may not be true any more.";
    const alarm = document.getElementById("late");
    if (alarm.textContent !== text && document.body.dataset.started) {
      alarm.replaceChildren(el("p", { class: "note alarm", role: "alert", text }));
    }
  }

  async function begin() {
    let { started, expectedHours } = document.body.dataset;
    if (!started) {
      const site = await load("site");
      started = site.started;
      expectedHours = site.expected_hours;
    }
    if (!started) return;
    show(started, Number(expectedHours));
    setInterval(() => show(started, Number(expectedHours)), 60_000);
  }
  begin().catch((error) => (box.textContent = error.message));
})();

// --- theme

(() => {
  const themes = ["auto", "light", "dark"];
  const html = document.documentElement;
  const now = () => html.dataset.theme ?? "auto";
  const button = lighthouse.el("button", { type: "button", class: "theme", text: `Theme: ${now()}` });
  button.addEventListener("click", () => {
    const next = themes[(themes.indexOf(now()) + 1) % themes.length];
    if (next === "auto") delete html.dataset.theme;
    else html.dataset.theme = next;
    try {
      if (next === "auto") localStorage.removeItem("lighthouse-theme");
      else localStorage.setItem("lighthouse-theme", next);
    } catch {
      // no storage: it holds for this page
    }
    button.textContent = `Theme: ${next}`;
    document.dispatchEvent(new Event("themechange"));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    document.dispatchEvent(new Event("themechange"));
  });
  document.getElementById("tools").append(button);
})();

// --- copy

(() => {
  const { el, announce } = lighthouse;

  async function put(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const area = el("textarea", { class: "vh", "aria-hidden": "true", tabindex: "-1" });
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      return done;
    }
  }

  for (const box of document.querySelectorAll("[data-copy]")) {
    const button = el("button", { type: "button", class: "copy", "aria-label": `Copy: ${box.dataset.copy}`, text: "Copy" });
    button.addEventListener("click", async () => {
      const done = await put(box.querySelector("pre").textContent);
      button.focus();
      button.textContent = done ? "Copied" : "Not copied";
      announce(done ? "Copied to the clipboard" : "The browser did not let it be copied");
      setTimeout(() => (button.textContent = "Copy"), 2000);
    });
    box.append(button);
  }
})();

// --- tables: sorted by a click on a heading; arrow keys in grids

lighthouse.sortable = (table) => {
  const { el } = lighthouse;
  const value = (row, column) => {
    const cell = row.cells[column];
    const raw = cell.dataset.value ?? cell.textContent.trim();
    const number = raw === "inf" ? Infinity : Number(raw.replaceAll(",", ""));
    return raw === "" || raw === "–" ? null : Number.isNaN(number) ? raw : number;
  };
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  };
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = el("button", { type: "button", class: "sort" }, ...head.childNodes);
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const keyed = [...table.tBodies[0].rows].map((row) => [value(row, column), row]);
      keyed.sort(([a], [b]) => {
        // what is not known comes last, whichever way
        if (a === null || b === null) return (a === null) - (b === null);
        return down ? compare(b, a) : compare(a, b);
      });
      table.tBodies[0].append(...keyed.map(([, row]) => row));
    });
  });
};

lighthouse.grid = (table) => {
  const stops = (row) => [...row.querySelectorAll("a, button")];
  table.setAttribute("role", "grid");

  /** One stop for the Tab key, wherever the focus was last. */
  function rove(current) {
    for (const each of table.querySelectorAll("a, button")) each.tabIndex = each === current ? 0 : -1;
  }

  function beside(node, step) {
    const all = stops(node.closest("tr"));
    return all[all.indexOf(node) + step];
  }

  function above(node, step) {
    const rows = [...table.rows];
    const column = node.closest("th, td").cellIndex;
    const nth = stops(node.closest("th, td")).indexOf(node);
    for (let at = rows.indexOf(node.closest("tr")) + step; rows[at]; at += step) {
      const found = rows[at].cells[column] ? stops(rows[at].cells[column]) : [];
      if (found.length) return found[Math.min(nth, found.length - 1)];
    }
    return undefined;
  }

  const moves = {
    ArrowLeft: (node) => beside(node, -1),
    ArrowRight: (node) => beside(node, 1),
    ArrowUp: (node) => above(node, -1),
    ArrowDown: (node) => above(node, 1),
    Home: (node) => stops(node.closest("tr"))[0],
    End: (node) => stops(node.closest("tr")).at(-1),
  };
  table.addEventListener("keydown", (event) => {
    const node = event.target.closest("a, button");
    if (!node || !moves[event.key] || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const next = moves[event.key](node);
    if (next) {
      rove(next);
      next.focus();
    }
  });
  table.addEventListener("focusin", (event) => {
    const node = event.target.closest("a, button");
    if (node) rove(node);
  });
  table.refresh = () => rove(table.querySelector("[tabindex='0']") ?? table.querySelector("tbody a, tbody button"));
  table.refresh();
};

for (const table of document.querySelectorAll("table[data-sort]")) lighthouse.sortable(table);
for (const table of document.querySelectorAll("table[data-grid]")) lighthouse.grid(table);
