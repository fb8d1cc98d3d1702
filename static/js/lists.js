/* Lists: filters that apply at once, rows selected with x and Shift, and Back that returns to the row.

   templates/lists/ has the markup: a form [data-filters], checkboxes [data-pick] and [data-pick-all], a bar [data-bulk]. */
"use strict";

(() => {
  const { keys } = window.envarium;
  const TYPING_MS = 300;
  document.documentElement.classList.add("js"); // the button "Apply" is for pages without a script

  /* Filters */
  let typing = 0;
  const apply = (form) => form.dispatchEvent(new CustomEvent("filter", { bubbles: true }));
  document.addEventListener("input", (event) => {
    const form = event.target.closest("form[data-filters]");
    if (!form || event.target.type !== "search") return;
    clearTimeout(typing);
    typing = setTimeout(() => apply(form), TYPING_MS);
  });
  let changed = "";
  document.addEventListener("change", (event) => {
    const form = event.target.closest("form[data-filters]");
    if (!form || event.target.type === "search") return;
    changed = event.target.id;
    apply(form);
  });
  let entered = false;
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("form[data-filters]")) return;
    clearTimeout(typing);
    entered = true; // whoever presses Enter has done with the field: the first row is next
    document.activeElement?.blur();
  });
  /* Filters of a page that is fetched whole: the field that was changed has the focus again. */
  const LAST = "envarium.filtered";
  document.addEventListener("change", (event) => {
    const form = event.target.closest("form[data-at-once]");
    if (!form || !event.target.name) return;
    try { sessionStorage.setItem(LAST, `${location.pathname} ${event.target.name}`); } catch { /* private mode */ }
    form.requestSubmit();
  });
  document.addEventListener("DOMContentLoaded", () => {
    let last = "";
    try {
      last = sessionStorage.getItem(LAST) || "";
      sessionStorage.removeItem(LAST);
    } catch { /* private mode */ }
    const [page, name] = last.split(" ");
    if (name && page === location.pathname) document.querySelector(`form[data-at-once] [name="${CSS.escape(name)}"]`)?.focus();
  });
  /* Rows that are about to go are not opened: what was asked for comes first. */
  function wait(busy) {
    const list = document.getElementById("list");
    if (list) list.inert = busy;
  }
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (event.target.matches("form[data-filters]")) wait(true);
  });
  for (const failed of ["htmx:responseError", "htmx:sendError", "htmx:sendAbort"]) {
    document.addEventListener(failed, () => wait(false));
  }
  document.addEventListener("htmx:configRequest", (event) => {
    if (!event.target.matches("form[data-filters]")) return;
    const given = event.detail.formData || event.detail.parameters;
    for (const [name, value] of [...given.entries()]) if (value === "") given.delete(name);
  });
  document.addEventListener("htmx:afterSettle", (event) => {
    if (event.target.id !== "list") return;
    if (changed) document.getElementById(changed)?.closest("details")?.querySelector("summary")?.focus();
    if (entered) document.querySelector("#list [data-row-link]")?.focus();
    changed = "";
    entered = false;
    selection();
  });

  /* On a telephone a row is a card: each of its values says which column it is of; data-label of a head is a shorter name. */
  function label() {
    for (const table of document.querySelectorAll(":is(#list, .cards) table.rows")) {
      const heads = [...table.querySelectorAll("thead th")].map((head) => head.dataset.label ?? (head.querySelector(".visually-hidden") ? "" : head.textContent.trim()));
      for (const row of table.querySelectorAll("tbody tr")) {
        [...row.cells].forEach((cell, at) => {
          if (cell.tagName === "TD" && heads[at]) cell.dataset.label = heads[at];
        });
      }
    }
  }
  document.addEventListener("DOMContentLoaded", label);
  document.addEventListener("htmx:afterSettle", label);

  /* Selection */
  const boxes = () => [...document.querySelectorAll("[data-pick]")];
  let last = null;
  function selection() {
    const bar = document.querySelector("[data-bulk]");
    if (!bar) return;
    const all = boxes();
    const picked = all.filter((box) => box.checked);
    const appears = bar.hidden && picked.length > 0;
    bar.hidden = !picked.length;
    if (appears) document.activeElement.closest("tr")?.scrollIntoView({ block: "nearest" }); // the bar takes room from the rows
    const everyRow = Boolean(all.length) && picked.length === all.length;
    const offer = bar.querySelector("[data-pick-whole]");
    if (!offer || !everyRow) chooseWhole(bar, false);
    const whole = bar.hasAttribute("data-chose-whole");
    if (offer) offer.hidden = whole || !everyRow;
    tell(bar.querySelector("[data-told]"), whole ? "all" : picked.map((box) => box.value).join());
    const count = bar.querySelector("[data-count]");
    if (count) count.textContent = `${whole ? `All ${offer.dataset.pickWhole}` : picked.length} selected`;
    for (const button of bar.querySelectorAll("[data-picks]")) {
      const [least, most] = button.dataset.picks.split(" ").map(Number);
      button.disabled = whole || picked.length < least || picked.length > most;
    }
    const every = document.querySelector("[data-pick-all]");
    if (every) {
      every.checked = everyRow;
      every.indeterminate = Boolean(picked.length) && picked.length < all.length;
    }
  }
  /* Everything that the filter leaves: its parameters are sent instead of the rows, which lose their name for that. */
  function chooseWhole(bar, on) {
    if (bar.hasAttribute("data-chose-whole") === on) return;
    bar.toggleAttribute("data-chose-whole", on);
    for (const field of bar.querySelectorAll("[data-whole]")) field.disabled = !on;
    for (const box of boxes()) {
      if (on) box.removeAttribute("name");
      else box.name = "ids";
    }
  }
  /* Every row of the page; where they all are selected, everything that the filter leaves. */
  function chooseMore() {
    const bar = document.querySelector("[data-bulk]");
    const rows = boxes();
    if (rows.length && rows.every((box) => box.checked) && bar.querySelector("[data-pick-whole]")) chooseWhole(bar, true);
    for (const box of rows) box.checked = true;
    selection();
  }
  document.addEventListener("click", (event) => { if (event.target.closest("[data-pick-whole]")) chooseMore(); });
  /* What an act would take, by the server, when the selection has stood still for a moment (hx-trigger has the delay). */
  function tell(told, keys) {
    if (!told || (told.dataset.of || "") === keys) return;
    told.dataset.of = keys;
    told.setAttribute("aria-busy", "true"); // what was said is of another selection
    told.textContent = keys ? "…" : "";
    if (keys) window.htmx.trigger(told, "picked");
  }
  document.addEventListener("htmx:afterRequest", (event) => {
    const told = event.target;
    if (!told.matches?.("[data-told]") || !event.detail.xhr?.status) return; // one that was given up for a later one
    told.removeAttribute("aria-busy");
    if (!event.detail.successful) told.replaceChildren();
  });
  function span(from, to, checked) {
    const all = boxes();
    const [low, high] = [all.indexOf(from), all.indexOf(to)].sort((a, b) => a - b);
    if (low < 0) return;
    for (const box of all.slice(low, high + 1)) box.checked = checked;
  }
  document.addEventListener("click", (event) => {
    if (!event.target.matches("[data-pick]")) return;
    if (event.shiftKey && last) span(last, event.target, event.target.checked);
    last = event.target;
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-pick-all]")) for (const box of boxes()) box.checked = event.target.checked;
    if (event.target.matches("[data-pick], [data-pick-all]")) selection();
  });
  const current = () => document.activeElement?.closest("[data-row]")?.querySelector("[data-pick]");
  function toggle(from) {
    const box = current();
    if (!box) return;
    box.checked = !box.checked;
    if (from) span(from, box, box.checked);
    last = box;
    selection();
  }
  function clear() {
    for (const box of boxes()) box.checked = false;
    selection();
  }
  if (document.querySelector("[data-bulk]")) {
    keys.add({ key: "x", does: "Select the row", group: "List", run: () => toggle(null) });
    keys.add({ key: "X", does: "Select from the last row to this one", group: "List", run: () => toggle(last) });
    keys.add({ key: "A", does: "Select all rows of the page, then all of the filter", group: "List", run: chooseMore });
    document.addEventListener("click", (event) => { if (event.target.closest("[data-pick-none]")) clear(); });
  }

  /* Back returns to the row from which one left. */
  const key = () => `envarium.row:${location.pathname}${location.search}`;
  document.addEventListener("click", (event) => {
    const row = event.target.closest("a")?.closest("[data-row][id]");
    try { if (row) sessionStorage.setItem(key(), row.id); } catch { /* private mode: the browser's own place is kept */ }
  });
  function back() {
    const kind = performance.getEntriesByType("navigation")[0]?.type;
    if (kind !== "back_forward") return;
    let id = null;
    try { id = sessionStorage.getItem(key()); } catch { return; }
    const link = id && document.getElementById(id)?.querySelector("[data-row-link]");
    if (!link) return;
    link.focus({ preventScroll: true });
    link.closest("[data-row]").scrollIntoView({ block: "center" });
  }
  window.addEventListener("pageshow", () => { selection(); back(); });
})();
