"use strict";
// Runs before the page is painted, so that a chosen theme does not flash.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("lighthouse-theme");
  } catch {
    // no storage: the system's choice holds
  }
  document.documentElement.classList.add("scripted");
  if (chosen === "light" || chosen === "dark") {
    document.documentElement.dataset.theme = chosen;
  }
})();
