/* Changing the taxonomy's tree from the tree itself: a menu on each label, cut and put by keys, and by drag. All of it leads
   to the page on which a change is looked at first. Without this script the menu is a page of its own. */
"use strict";

(() => {
  const tree = document.getElementById("tree");
  if (!tree || !tree.dataset.change) return;
  const ACTS = [["move", "Move", "m"], ["merge", "Merge", "g"], ["split", "Split", "s"], ["rename", "Rename", "n"], ["delete", "Delete", "d"]];
  let carried = null;
  let menu = null;

  const itemOf = (target) => target.closest && target.closest("[role=treeitem][data-node]");
  const nameOf = (item) => item.querySelector(":scope > .node > .name").textContent.trim();
  const page = (item) => tree.dataset.change.replace("/0/", `/${item.dataset.node}/`);
  const act = (item, kind, query = "") => { window.location.assign(`${page(item)}${kind}/${query}`); };

  /* The menu */
  function shut(back) {
    if (!menu) return;
    const { list, item } = menu;
    menu = null;
    list.remove();
    if (back) item.focus();
  }

  function open(item) {
    shut(false);
    const list = document.createElement("ul");
    list.className = "tree-menu";
    list.setAttribute("role", "menu");
    list.setAttribute("aria-label", `Change ${nameOf(item)}`);
    for (const [kind, does, key] of ACTS) {
      const row = document.createElement("li");
      row.setAttribute("role", "none");
      const link = document.createElement("a");
      link.href = `${page(item)}${kind}/`;
      link.setAttribute("role", "menuitem");
      link.tabIndex = -1;
      link.dataset.menuKey = key;
      const cap = document.createElement("kbd");
      cap.textContent = key;
      link.append(does, cap);
      row.append(link);
      list.append(row);
    }
    const box = item.querySelector(":scope > .node").getBoundingClientRect();
    document.body.append(list);
    const left = Math.min(box.right - list.offsetWidth, window.innerWidth - list.offsetWidth - 8);
    list.style.setProperty("left", `${Math.max(8, left + window.scrollX)}px`);
    list.style.setProperty("top", `${box.bottom + window.scrollY}px`);
    menu = { list, item };
    list.querySelector("a").focus();
    list.addEventListener("keydown", inMenu);
    list.addEventListener("focusout", (event) => { if (!list.contains(event.relatedTarget)) shut(false); });
  }

  function inMenu(event) {
    const links = [...menu.list.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    const steps = { ArrowDown: at + 1, ArrowUp: at - 1 + links.length, Home: 0, End: links.length - 1 };
    if (event.key in steps) links[steps[event.key] % links.length].focus();
    else if (event.key === "Escape" || event.key === "Tab") shut(true);
    else {
      const link = links.find((one) => one.dataset.menuKey === event.key);
      if (!link || event.ctrlKey || event.metaKey || event.altKey) return;
      link.click();
    }
    event.preventDefault();
    event.stopPropagation();
  }

  /* Cut and put: by keys, and by drag */
  function carry(item) {
    for (const other of tree.querySelectorAll("[data-carried]")) delete other.dataset.carried;
    carried = item;
    if (item) item.dataset.carried = "";
  }

  function put(to) {
    if (!carried || carried === to) return;
    act(carried, "move", `?to=${to ? to.dataset.node : "top"}`);
  }

  const keys = {
    ".": open,
    ContextMenu: open,
    F2: (item) => act(item, "rename"),
    Delete: (item) => act(item, "delete"),
    "Ctrl+x": (item) => {
      carry(item);
      window.envarium.flash(`“${nameOf(item)}” is cut. Go to the label that it is to stand below and press Ctrl+V.`);
    },
    "Ctrl+v": put,
  };

  tree.addEventListener("keydown", (event) => {
    const item = itemOf(event.target);
    if (!item || event.altKey) return;
    const name = (event.ctrlKey || event.metaKey ? "Ctrl+" : "") + event.key;
    if (event.key === "Escape" && carried) { carry(null); return; }
    const run = event.shiftKey && event.key === "F10" ? open : keys[name];
    if (!run) return;
    event.preventDefault();
    event.stopPropagation();
    run(item);
  });

  tree.addEventListener("click", (event) => {
    const link = event.target.closest("a.acts");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    open(itemOf(link));
  });

  const head = document.querySelector("[data-drop-top]");
  const targetOf = (event) => itemOf(event.target) || (event.target.closest && event.target.closest("[data-drop-top]"));

  function dragged(event) {
    if (event.type === "dragstart") {
      const item = itemOf(event.target);
      if (!item) return;
      carry(item);
      event.dataTransfer.effectAllowed = "move";
      event.dataTransfer.setData("text/plain", nameOf(item));
      return;
    }
    if (event.type === "dragend") { carry(null); return; }
    const target = targetOf(event);
    if (!carried || !target || carried.contains(target)) return;
    for (const other of document.querySelectorAll("[data-over]")) delete other.dataset.over;
    if (event.type === "dragleave") return;
    event.preventDefault();
    if (event.type === "dragover") { target.dataset.over = ""; return; }
    put(target === head ? null : target);
  }

  for (const part of [tree, head]) for (const kind of ["dragstart", "dragover", "dragleave", "drop", "dragend"]) part.addEventListener(kind, dragged);
  /* A label is taken by its row; links of the row would be dragged as addresses. */
  tree.addEventListener("pointerdown", (event) => {
    const item = itemOf(event.target);
    if (!item || event.target.closest("a.acts, a.twist")) return;
    item.draggable = true;
    for (const link of item.querySelectorAll(":scope > .node a")) link.draggable = false;
  });

  for (const [key, does] of [[".", "What can be done with the label"], ["F2", "Rename it"], ["Delete", "Delete it"], ["Ctrl+x", "Cut it, to move it"], ["Ctrl+v", "Put the cut label below this one"]]) {
    window.envarium.keys.add({ key, does, group: "Tree" });
  }
})();
