/* The desks of labelling: a node chosen without a reload, the tree narrowed as one types, labels grouped in place.
   Without this script the same buttons send the form. The tree's keys are in tree.js, draft and lease in review.js. */
"use strict";

(() => {
  const tree = document.querySelector(".choose-tree");
  const form = document.getElementById("decide");
  if (!form) return;

  /* The tree: choose */
  const nameOf = (item) => item.querySelector(":scope > .node > .name").textContent.trim();
  function pathOf(item) {
    const above = [];
    for (let one = item.parentElement.closest("[role=treeitem]"); one; one = one.parentElement.closest("[role=treeitem]")) above.unshift(nameOf(one));
    return above;
  }

  function choose(item) {
    const slot = form.querySelector("[name=slot]:checked")?.value || "node";
    const field = form.querySelector(`[name=${slot}]`);
    if (!field) return;
    field.value = item.dataset.node;
    if (slot === "node") {
      for (const other of tree.querySelectorAll("[aria-selected=true]")) other.setAttribute("aria-selected", "false");
      item.setAttribute("aria-selected", "true");
      const shown = document.getElementById("chosen-path");
      shown.querySelector("[data-above]").textContent = pathOf(item).map((name) => `${name} › `).join("");
      shown.querySelector("[data-name]").textContent = nameOf(item);
      about(item);
    } else {
      for (const other of tree.querySelectorAll("[data-second]")) delete other.dataset.second;
      item.dataset.second = "";
      document.querySelector("[data-second-words]").textContent = `or ${[...pathOf(item), nameOf(item)].join(" › ")}`;
      form.querySelector("[name=slot][value=node]").checked = true;
    }
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }

  function about(item) {
    const shown = document.getElementById("about-node");
    const below = [...item.querySelectorAll(":scope > [role=group] > [role=treeitem]")].map(nameOf);
    const name = document.createElement("b");
    name.textContent = nameOf(item);
    const words = below.length ? `: ${below.slice(0, 12).join(", ")}${below.length > 12 ? ` and ${below.length - 12} more` : ""} below it` : " has nothing below it";
    shown.replaceChildren(name, words);
  }

  /* The tree: narrow */
  function narrow() {
    const field = document.getElementById("find-node");
    const words = field.value.trim().toLowerCase();
    let hits = 0;
    for (const item of tree.querySelectorAll("[role=treeitem]")) {
      const hit = Boolean(words) && nameOf(item).toLowerCase().includes(words);
      const within = Boolean(words) && [...item.querySelectorAll("[role=treeitem]")].some((one) => nameOf(one).toLowerCase().includes(words));
      hits += hit ? 1 : 0;
      item.hidden = Boolean(words) && !hit && !within;
      const group = item.querySelector(":scope > [role=group]");
      if (group && words) {
        group.hidden = !within;
        item.setAttribute("aria-expanded", String(within));
      }
    }
    const size = tree.querySelectorAll("[role=treeitem]").length;
    document.getElementById("found-nodes").textContent = words ? `${hits} of ${size} nodes` : `${size} nodes`;
  }

  /* What this browser kept of a choice is shown as it was chosen. */
  function showRestored({ detail }) {
    const slot = form.querySelector("[name=slot]:checked");
    for (const field of detail.changed.filter(({ name }) => name === "node" || name === "second")) {
      const item = tree?.querySelector(`[data-node="${CSS.escape(field.value)}"]`);
      const asked = form.querySelector(`[name=slot][value=${field.name}]`);
      if (!item) continue;
      if (asked) asked.checked = true;
      choose(item);
    }
    if (slot) slot.checked = true;
  }
  form.addEventListener("held:restored", showRestored);

  if (tree) {
    const field = document.getElementById("find-node");
    tree.addEventListener("click", (event) => {
      const name = event.target.closest("button.name");
      if (!name) return;
      event.preventDefault();
      choose(name.closest("[role=treeitem]"));
    });
    field.addEventListener("input", (event) => { event.stopPropagation(); narrow(); });
    field.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowDown" && event.key !== "Enter") return;
      event.preventDefault();
      const first = [...tree.querySelectorAll("[role=treeitem]")].find((item) => item.offsetParent !== null && nameOf(item).toLowerCase().includes(field.value.trim().toLowerCase()));
      if (!first) return;
      for (const other of tree.querySelectorAll("[tabindex='0']")) other.tabIndex = -1;
      first.tabIndex = 0;
      first.focus();
    });
  }

  /* Groups: put together in place */
  const grouping = () => document.getElementById("grouping");
  const boxes = () => [...grouping().querySelectorAll("[name=label]")];

  async function put(body) {
    const at = boxes().findIndex((box) => box.checked);
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
    grouping().replaceWith(document.adoptNode(next));
    const left = boxes();
    (left[Math.min(Math.max(at, 0), left.length - 1)] || document.getElementById("group-name"))?.focus();
  }

  function sent(button) {
    const body = new FormData(form);
    if (button?.name) body.set(button.name, button.value);
    return body;
  }

  if (grouping()) {
    form.addEventListener("submit", (event) => {
      const button = event.submitter;
      const within = button && (grouping().contains(button) || button.name === "put");
      if (!within) return;
      event.preventDefault();
      event.stopPropagation();
      put(sent(button));
    }, true);
    form.addEventListener("keydown", (event) => {
      if (!event.target.matches("[name=label]") || !/^Arrow(Up|Down)$/.test(event.key)) return;
      event.preventDefault();
      const all = boxes();
      all[all.indexOf(event.target) + (event.key === "ArrowDown" ? 1 : -1)]?.focus();
    });
    /* By drag as well; ticking and naming does the same. */
    for (const kind of ["dragstart", "dragover", "dragleave", "drop"]) form.addEventListener(kind, dragged);
    ready();
    new MutationObserver(ready).observe(form, { childList: true });
  }

  function ready() {
    for (const row of grouping().querySelectorAll("[data-label]")) row.draggable = true;
  }

  function dragged(event) {
    if (event.type === "dragstart") { event.dataTransfer.setData("text/plain", event.target.closest("[data-label]")?.dataset.label || ""); return; }
    const target = event.target.closest("[data-drop]");
    if (!target) return;
    if (event.type === "dragleave") { delete target.dataset.over; return; }
    event.preventDefault();
    if (event.type === "dragover") { target.dataset.over = ""; return; }
    delete target.dataset.over;
    const body = new FormData(form);
    const label = event.dataTransfer.getData("text/plain");
    if (!body.getAll("label").includes(label)) { body.delete("label"); body.set("label", label); }
    if (target.dataset.drop) body.set("into", target.dataset.drop); else body.set("out", "1");
    put(body);
  }
})();
