/* A list of ticks with a find and acts on all: templates/batches/launch/clone_items.html has the markup.

   Both acts take the rows that the find shows. Space ticks a row, arrow keys move between rows. */
"use strict";

(() => {
  const format = new Intl.NumberFormat("en");

  function setUp(list) {
    const rows = [...list.querySelectorAll("[data-pick-row]")];
    const boxes = rows.map((row) => row.querySelector("input"));
    const rest = list.querySelector("[data-pick-rest]");
    const find = list.querySelector("[data-pick-find]");
    const unlisted = Number(rest?.dataset.pickRest ?? 0);

    function count() {
      const chosen = boxes.filter((box) => box.checked).length + (rest?.checked ? unlisted : 0);
      const total = boxes.length + unlisted;
      list.querySelector("[data-pick-count]").textContent = `${format.format(chosen)} of ${format.format(total)} chosen`;
    }

    function narrow() {
      const wanted = find.value.trim().toLowerCase();
      for (const row of rows) row.hidden = Boolean(wanted) && !row.textContent.toLowerCase().includes(wanted);
      list.querySelector("[data-pick-nothing]").hidden = rows.some((row) => !row.hidden);
    }

    function tickShown(checked) {
      rows.forEach((row, at) => { if (!row.hidden) boxes[at].checked = checked; });
      if (rest && !find.value.trim()) rest.checked = checked;
      count();
      for (const kind of ["input", "change"]) list.dispatchEvent(new Event(kind, { bubbles: true }));
    }

    find.addEventListener("input", (event) => {
      event.stopPropagation(); // a find changes nothing that the form would send
      narrow();
    });
    find.addEventListener("change", (event) => event.stopPropagation());
    find.addEventListener("keydown", (event) => {
      if (event.key === "Enter") event.preventDefault();
      if (event.key === "Enter" || event.key === "ArrowDown") boxes[rows.findIndex((row) => !row.hidden)]?.focus();
    });
    list.querySelector("[data-pick-every]").addEventListener("click", () => tickShown(true));
    list.querySelector("[data-pick-none]").addEventListener("click", () => tickShown(false));
    list.addEventListener("change", count);
    list.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step || !event.target.closest("[data-pick-row]")) return;
      event.preventDefault();
      const shown = boxes.filter((_, at) => !rows[at].hidden);
      shown[shown.indexOf(event.target) + step]?.focus();
    });
    list.querySelector("[data-pick-tools]").hidden = false;
    count();
  }

  document.addEventListener("DOMContentLoaded", () => document.querySelectorAll("[data-pick-list]").forEach(setUp));
})();
