/* The replay's keys, through the registry that feeds the sheet behind "?". */
"use strict";

(() => {
  const replay = window.envarium.replay;
  if (!replay) return;
  const { keys } = window.envarium;
  const { state, rows } = replay;

  /* What a key found nothing of holds for the step that is shown. */
  let told = null;
  function tell(words) { told = window.envarium.flash(words, ""); }
  document.getElementById("desk").addEventListener("replay:going", () => told?.remove());

  function next(by, wanted) {
    const list = rows.filter((row) => wanted(row) && (by > 0 ? row.step > state.step : row.step < state.step));
    return by > 0 ? list[0] : list[list.length - 1];
  }

  function jump(by, wanted, what, moves) {
    return () => {
      const row = next(by, wanted);
      if (row) (moves ? replay.walk : replay.go)(row.step);
      else tell(`There is no ${what} ${by > 0 ? "after" : "before"} this step.`);
    };
  }

  const shown = (row) => row.fits;
  const marked = (letter) => (row) => row.marks.includes(letter);
  const add = (key, does, run, repeat = false) => keys.add({ key, does, group: "Replay", run, repeat });

  add("j", "Next step", jump(1, shown, "step", true), true);
  add("k", "Step before", jump(-1, shown, "step", true), true);
  add("]", "Next flip of a check", jump(1, marked("f"), "flip"));
  add("[", "Flip before", jump(-1, marked("f"), "flip"));
  add("}", "Next change of the state", jump(1, marked("c"), "change of the state"));
  add("{", "Change before", jump(-1, marked("c"), "change of the state"));
  add("e", "Next error", jump(1, marked("e"), "error"));
  add("E", "Error before", jump(-1, marked("e"), "error"));
  add("d", "Next difference from the record", jump(1, marked("d"), "difference from the record"));
  add("g g", "First step", () => replay.go(0));
  add("G", "Last step", () => replay.go(replay.last));
  add("s", "Whole state, or changes", () => {
    const query = replay.parameters();
    replay.go(state.step, { path: query.get("path"), view: query.get("view") === "state" ? null : "state" });
  });
  add("r", "Fold or open the reasoning", () => {
    const details = document.querySelector("[data-remember=reasoning]");
    if (details) details.open = !details.open;
    else tell("This step has no reasoning.");
  });
  add("o", "Fold or open what came before this step", () => {
    const details = document.querySelector("[data-remember=before]");
    if (details) details.open = !details.open;
    else tell("No call or message came before this step.");
  });

  function hit(by) {
    const hits = [...document.querySelectorAll("#hits [data-step]")];
    if (!hits.length) { tell("Search first: / opens the search."); return; }
    const at = hits.indexOf(document.activeElement);
    const here = at >= 0 ? at : hits.findIndex((link) => Number(link.dataset.step) >= state.step) - (by > 0 ? 1 : 0);
    const link = hits[(here + by + hits.length) % hits.length];
    link.focus({ preventScroll: false });
    replay.go(Number(link.dataset.step));
  }
  keys.add({ key: "n", does: "Next hit", group: "Search", run: () => hit(1), repeat: true });
  keys.add({ key: "N", does: "Hit before", group: "Search", run: () => hit(-1), repeat: true });
})();
