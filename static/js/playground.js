/* The playground by keyboard: the tool list narrows as you type, Enter takes the first, [ and ] walk the calls. */
"use strict";

(() => {
  const { keys } = window.envarium;
  const find = document.querySelector(".tool-find input");
  const rows = [...document.querySelectorAll(".tool-list [data-tool]")];

  function narrow() {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const fits = words.every((word) => row.dataset.tool.includes(word));
      row.hidden = !fits;
      shown += fits ? 1 : 0;
    }
    const none = document.querySelector("[data-none]");
    if (none) none.hidden = shown > 0 || !rows.length;
  }

  if (find) {
    find.addEventListener("input", narrow);
    find.form.addEventListener("submit", (event) => {
      const first = rows.find((row) => !row.hidden);
      if (!first) return;
      event.preventDefault();
      first.querySelector("a").click();
    });
    find.addEventListener("keydown", (event) => {
      const first = rows.find((row) => !row.hidden);
      if (event.key === "ArrowDown" && first) { event.preventDefault(); first.querySelector("a").focus(); }
    });
  }

  function walk(by) {
    const calls = [...document.querySelectorAll(".history [data-at]")];
    const at = calls.findIndex((link) => link.hasAttribute("aria-current"));
    const next = calls[at - by];
    if (next) next.click();
  }
  keys.add({ key: "[", does: "Call before", group: "Playground", run: () => walk(-1) });
  keys.add({ key: "]", does: "Next call", group: "Playground", run: () => walk(1) });

  /* Fields take the focus by `autofocus`; a field that could not be read is first in line. */
  const wrong = document.querySelector(".call-form [aria-invalid=true]");
  if (wrong) wrong.focus();
})();
