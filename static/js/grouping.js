/* The desk on which labels are grouped: put together in place, found, sorted, walked through by keys, and dragged.
   Without this script the same buttons send the form. Draft and lease are in review.js. */
"use strict";

(() => {
  const form = document.getElementById("decide");
  const grouping = () => document.getElementById("grouping");
  if (!form || !grouping()) return;
  const { keys } = window.envarium;
  let found = "";
  let sorted = "";

  const left = () => grouping().querySelector("[data-sorted]");
  const rows = () => [...left().querySelectorAll("[data-label]")];
  const boxes = () => [...grouping().querySelectorAll("[name=label]")].filter((box) => box.offsetParent !== null);

  /* Show what the find field asks for, in the order that is chosen: after each change the server's part is a new one. */
  function arrange() {
    const words = found.toLowerCase().split(/\s+/).filter(Boolean);
    const all = rows();
    all.forEach((row, place) => { row.dataset.place ??= String(place); });
    const byName = (one, other) => one.dataset.name.localeCompare(other.dataset.name) || one.dataset.place - other.dataset.place;
    const orders = {
      name: byName,
      things: (one, other) => other.dataset.things - one.dataset.things || byName(one, other),
      "": (one, other) => one.dataset.place - other.dataset.place,
    };
    left().append(...all.sort(orders[sorted]));
    for (const row of all) {
      const text = row.dataset.text.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
    const shown = all.filter((row) => !row.hidden).length;
    grouping().querySelector("[data-shown-labels]").textContent = words.length ? `${shown} found, ` : "";
  }

  function ready() {
    for (const row of grouping().querySelectorAll("[data-label]")) row.draggable = true;
    grouping().querySelector(".find").hidden = false;
    document.getElementById("find-label").value = found;
    document.getElementById("sort-labels").value = sorted;
    arrange();
  }

  /* One after the other: each sends what the one before has made of the groups. */
  let waiting = Promise.resolve();
  let inFlight = 0;
  function put(fields) {
    inFlight += 1;
    waiting = waiting.then(() => change(fields)).finally(() => { inFlight -= 1; });
  }

  async function change(fields) {
    const body = new FormData(form);
    for (const name of ["label", "group"]) body.delete(name);
    for (const [name, value] of fields) body.append(name, value);
    const ticked = new Set(fields.filter(([name]) => name === "label").map(([, value]) => value));
    const at = boxes().findIndex((box) => ticked.has(box.value));
    const before = document.activeElement;
    let answer;
    try {
      answer = await fetch(grouping().dataset.fill, { method: "POST", body, credentials: "same-origin" });
    } catch {
      window.envarium.flash("That could not be kept: the server cannot be reached.", "bad");
      return;
    }
    if (answer.ok) form.dispatchEvent(new CustomEvent("held:kept", { bubbles: true }));
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const said = page.querySelector("#main .note.bad");
    if (said) window.envarium.flash(said.textContent, "bad");
    const next = page.getElementById("grouping");
    if (!next) { window.location.reload(); return; }
    const kept = meanwhile(ticked, new Map(fields).get("group") || "");
    const now = document.activeElement;
    const within = grouping().contains(now);
    const same = now.id ? `#${CSS.escape(now.id)}` : `[name="${CSS.escape(now.name || "")}"][value="${CSS.escape(now.value || "")}"]`;
    grouping().replaceWith(document.adoptNode(next));
    ready();
    kept();
    if (!within) return;
    const after = boxes();
    const on = now === before ? null : grouping().querySelector(same);
    const again = at < 0 && now.type === "submit" ? grouping().querySelector(`button[name="${CSS.escape(now.name)}"]`) : null;
    (on || again || after[Math.min(Math.max(at, 0), after.length - 1)] || document.getElementById("group-name"))?.focus();
  }

  /* What was ticked and typed while the server answered is there in the new part too. */
  function meanwhile(ticked, name) {
    const since = boxes().filter((box) => box.checked && !ticked.has(box.value)).map((box) => box.value);
    const typed = document.getElementById("group-name").value;
    return () => {
      for (const box of boxes()) if (since.includes(box.value)) box.checked = true;
      if (typed !== name) document.getElementById("group-name").value = typed;
    };
  }

  /* What a button sends, as it is now: the ticks, the group's name, and itself. */
  function sent(button) {
    const body = new FormData(form);
    const fields = [...body.getAll("label").map((value) => ["label", value]), ["group", body.get("group") || ""]];
    return button?.name ? [...fields, [button.name, button.value]] : fields;
  }

  function step(by) {
    const all = boxes();
    const at = all.indexOf(document.activeElement);
    const next = at < 0 ? all[by > 0 ? 0 : all.length - 1] : all[at + by];
    next?.focus();
    next?.closest("[data-label]").scrollIntoView({ block: "nearest" });
  }

  /* Tick what the find field shows, or untick it if all of it is ticked. */
  function tickShown() {
    const shown = rows().filter((row) => !row.hidden).map((row) => row.querySelector("[name=label]"));
    const ticks = shown.some((box) => !box.checked);
    for (const box of shown) box.checked = ticks;
  }

  form.addEventListener("submit", (event) => {
    const button = event.submitter;
    const changes = button && (grouping().contains(button) || button.name === "put");
    if (!changes && !inFlight) return;
    event.preventDefault();
    event.stopPropagation();
    if (changes) put(sent(button));
    else waiting.then(() => form.requestSubmit(button));
  }, true);
  form.addEventListener("keydown", (event) => {
    if (event.target.id === "find-label") {
      if (event.key === "Escape") { found = ""; event.target.value = ""; arrange(); event.target.blur(); }
      else if (event.key === "Enter" || event.key === "ArrowDown") rows().find((row) => !row.hidden)?.querySelector("[name=label]").focus();
      else return;
      event.preventDefault();
      return;
    }
    if (!event.target.matches("[name=label]") || !/^Arrow(Up|Down)$/.test(event.key)) return;
    event.preventDefault();
    step(event.key === "ArrowDown" ? 1 : -1);
  });
  /* What is found and sorted is no part of the grouping: no draft is kept for it. */
  form.addEventListener("input", (event) => {
    if (event.target.id === "find-label") found = event.target.value;
    else if (event.target.id === "sort-labels") sorted = event.target.value;
    else return;
    event.stopPropagation();
    arrange();
  });
  form.addEventListener("click", (event) => { if (event.target.closest("[data-tick-shown]")) tickShown(); });

  /* By drag as well; ticking and naming does the same. */
  function dragged(event) {
    if (event.type === "dragstart") { event.dataTransfer.setData("text/plain", event.target.closest("[data-label]")?.dataset.label || ""); return; }
    const target = event.target.closest("[data-drop]");
    if (!target) return;
    if (event.type === "dragleave") { delete target.dataset.over; return; }
    event.preventDefault();
    if (event.type === "dragover") { target.dataset.over = ""; return; }
    delete target.dataset.over;
    const label = event.dataTransfer.getData("text/plain");
    const ticks = sent(null).filter(([name]) => name === "label");
    const labels = ticks.some(([, value]) => value === label) ? ticks : [["label", label]];
    put([...labels, target.dataset.drop ? ["into", target.dataset.drop] : ["out", "1"]]);
  }
  for (const kind of ["dragstart", "dragover", "dragleave", "drop"]) form.addEventListener(kind, dragged);

  keys.add({ key: "j", does: "Next label", group: "Labels", repeat: true, run: () => step(1) });
  keys.add({ key: "k", does: "Label before", group: "Labels", repeat: true, run: () => step(-1) });
  keys.add({ key: "x", does: "Tick the label, or not", group: "Labels", run: () => { if (document.activeElement.name === "label") document.activeElement.click(); } });
  keys.add({ key: "Enter", does: "Put the ticked labels into one group", group: "Labels" });
  ready();
})();
