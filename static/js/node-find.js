/* Find a node of a labelling tree by name: ranked results with their paths, of which Enter takes the marked one.
   labelling.js chooses what is taken. Without this script the server narrows the tree. */
"use strict";

(() => {
  const tree = document.querySelector(".choose-tree");
  const field = document.getElementById("find-node");
  const list = document.getElementById("node-hits");
  if (!tree || !field || !list) return;
  const MOST_SHOWN = 60;
  const said = document.getElementById("found-nodes");
  const items = [...tree.querySelectorAll("[role=treeitem]")];
  const shownName = (item) => item.querySelector(":scope > .node > .name").textContent.trim();
  const nodes = items.map((item) => {
    const above = item.parentElement.closest("[role=treeitem]");
    const name = shownName(item);
    return { item, name, lower: name.toLowerCase(), level: Number(item.getAttribute("aria-level")), above };
  });
  const byItem = new Map(nodes.map((node) => [node.item, node]));
  let marked = 0;

  function path(node) {
    const names = [];
    for (let one = byItem.get(node.above); one; one = byItem.get(one.above)) names.unshift(one.name);
    return names;
  }

  /* The name that equals the text first, then the less deep node, then the name that begins with the text. */
  function ranked(text) {
    const words = text.split(/\s+/);
    const order = (node) => [node.lower === text ? 0 : 1, node.level, node.lower.startsWith(text) ? 0 : 1, node.lower.includes(text) ? 0 : 1];
    return nodes
      .filter((node) => words.every((word) => node.lower.includes(word)))
      .map((node, place) => ({ node, order: [...order(node), place] }))
      .sort((one, other) => {
        const at = one.order.findIndex((value, index) => value !== other.order[index]);
        return at < 0 ? 0 : one.order[at] - other.order[at];
      })
      .map(({ node }) => node);
  }

  function optionFor(node, place) {
    const option = document.createElement("li");
    option.id = `node-hit-${place}`;
    option.setAttribute("role", "option");
    option.dataset.takes = node.item.dataset.node;
    const name = document.createElement("b");
    name.textContent = node.name;
    const above = document.createElement("span");
    above.className = "muted small";
    above.textContent = path(node).map((step) => `${step} › `).join("");
    option.append(above, name);
    return option;
  }

  function mark(place) {
    const options = [...list.querySelectorAll("[role=option]")];
    marked = Math.min(Math.max(place, 0), options.length - 1);
    options.forEach((option, at) => option.setAttribute("aria-selected", String(at === marked)));
    options[marked]?.scrollIntoView({ block: "nearest" });
    if (options[marked]) field.setAttribute("aria-activedescendant", options[marked].id);
    else field.removeAttribute("aria-activedescendant");
  }

  function show() {
    const text = field.value.trim().toLowerCase().replace(/\s+/g, " ");
    const hits = text ? ranked(text) : [];
    tree.hidden = Boolean(text);
    list.hidden = !hits.length;
    field.setAttribute("aria-expanded", String(hits.length > 0));
    list.replaceChildren(...hits.slice(0, MOST_SHOWN).map(optionFor));
    const shown = hits.length > MOST_SHOWN ? `, the first ${MOST_SHOWN} are shown` : "";
    said.textContent = text ? `${hits.length.toLocaleString("en")} of ${nodes.length.toLocaleString("en")} nodes${shown}` : `${nodes.length.toLocaleString("en")} nodes`;
    mark(0);
  }

  function leave() {
    field.value = "";
    show();
    field.blur();
  }

  function take(option) {
    const node = nodes.find((one) => one.item.dataset.node === option.dataset.takes);
    leave();
    node.item.querySelector(":scope > .node > .name").click();
  }

  const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 };
  field.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.key in moves) mark(marked + moves[event.key]);
    else if (event.key === "Enter") {
      const option = list.querySelector("[aria-selected=true]");
      if (option) take(option);
    } else if (event.key === "Escape") leave();
    else return;
    event.preventDefault();
  });
  /* What is searched for is no part of the label: no draft is kept for it. */
  field.addEventListener("input", (event) => { event.stopPropagation(); show(); });
  list.addEventListener("click", (event) => {
    const option = event.target.closest("[role=option]");
    if (option) take(option);
  });
  for (const [name, value] of [["role", "combobox"], ["aria-controls", list.id], ["aria-autocomplete", "list"]]) field.setAttribute(name, value);
  show();
})();
