/* The desk on which things are placed: a node is chosen without a reload.
   Without this script the same buttons send the form. The tree's keys are in tree.js, its find field in node-find.js,
   draft and lease in review.js. */
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

  /* Open what is above a node, so that it is in sight, and let it be the tree's stop for Tab. */
  function reveal(item) {
    for (let one = item.parentElement.closest("[role=treeitem]"); one; one = one.parentElement.closest("[role=treeitem]")) {
      one.setAttribute("aria-expanded", "true");
      one.querySelector(":scope > [role=group]").hidden = false;
    }
    for (const other of tree.querySelectorAll("[tabindex='0']")) other.tabIndex = -1;
    item.tabIndex = 0;
    item.querySelector(":scope > .node").scrollIntoView({ block: "nearest" });
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
    tree.addEventListener("click", (event) => {
      const name = event.target.closest("button.name");
      if (!name) return;
      event.preventDefault();
      const item = name.closest("[role=treeitem]");
      choose(item);
      reveal(item);
      /* Letters belong to the tree while it has the focus: those of the page work again. */
      document.getElementById("chosen-path")?.focus({ preventScroll: true });
    });
  }
})();
