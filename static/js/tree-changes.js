/* Changing the taxonomy's tree from the tree itself: a menu on each label, cut and put by keys, and by drag. All of it leads
   to the page on which a change is looked at first. Without this script the menu is a page of its own. */
"use strict";

(() => {
  const tree = document.getElementById("tree");
  if (!tree || !tree.dataset.change) return;
  const ACTS = [["move", "Move", "m"], ["merge", "Merge", "g"], ["split", "Split", "s"], ["rename", "Rename", "n"], ["delete", "Delete", "d"]];
  let carried = null;
  let menu = null;

  const LEVELS = 3;
  const OPENS_MS = 700; /* so long a label is carried over a closed one before that opens */

  const itemOf = (target) => target.closest && target.closest("[role=treeitem][data-node]");
  const nameOf = (item) => item.querySelector(":scope > .node > .name").textContent.trim();
  const levelOf = (item) => Number(item.getAttribute("aria-level"));
  const parentOf = (item) => item.parentElement.closest("[role=treeitem]");
  const page = (item) => tree.dataset.change.replace("/0/", `/${item.dataset.node}/`);
  const act = (item, kind, query = "") => { window.location.assign(`${page(item)}${kind}/${query}`); };

  /* The menu: each entry says where it leads, what it does, and its key */
  function shut(back) {
    if (!menu) return;
    const { list, item } = menu;
    menu = null;
    list.remove();
    if (back) item.focus();
  }

  function show(label, entries, below, item) {
    shut(false);
    const list = document.createElement("ul");
    list.className = "tree-menu";
    list.setAttribute("role", "menu");
    list.setAttribute("aria-label", label);
    for (const [href, does, key] of entries) {
      const row = document.createElement("li");
      row.setAttribute("role", "none");
      const link = document.createElement("a");
      link.href = href;
      link.setAttribute("role", "menuitem");
      link.tabIndex = -1;
      link.dataset.menuKey = key;
      const [words, cap] = [document.createElement("span"), document.createElement("kbd")];
      words.textContent = does;
      cap.textContent = key;
      link.append(words, cap);
      row.append(link);
      list.append(row);
    }
    const box = below.querySelector(":scope > .node").getBoundingClientRect();
    document.querySelector("main").append(list);
    const origin = list.offsetParent.getBoundingClientRect();
    const left = Math.min(box.right, window.innerWidth - 8) - list.offsetWidth;
    list.style.setProperty("left", `${Math.max(8, left) - origin.left}px`);
    list.style.setProperty("top", `${box.bottom - origin.top}px`);
    menu = { list, item };
    list.querySelector("a").focus();
    list.addEventListener("keydown", inMenu);
    list.addEventListener("focusout", (event) => { if (!list.contains(event.relatedTarget)) shut(false); });
  }

  function open(item) {
    const entries = ACTS.map(([kind, does, key]) => [`${page(item)}${kind}/`, does, key]);
    show(`Change ${nameOf(item)}`, entries, item, item);
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

  /* How many levels a label and what is known below it take. */
  function heightOf(item) {
    const below = [...item.querySelectorAll(":scope > [role=group] > [role=treeitem]")];
    return 1 + (item.hasAttribute("aria-expanded") ? Math.max(1, ...below.map(heightOf)) : 0);
  }

  /* On a label of its own level one may be merged into it, or moved below it where that is possible; on any other it is moved. */
  function drop(item, onto) {
    if (levelOf(item) !== levelOf(onto)) { put(onto); return; }
    const [name, other] = [nameOf(item), nameOf(onto)];
    const entries = [[`${page(item)}merge/?to=${onto.dataset.node}`, `Merge “${name}” into “${other}”`, "g"]];
    if (levelOf(onto) + heightOf(item) <= LEVELS) {
      entries.push([`${page(item)}move/?to=${onto.dataset.node}`, `Move “${name}” below “${other}”`, "m"]);
    }
    if (entries.length > 1) show(`“${name}” is dropped on “${other}”`, entries, onto, item);
    else window.location.assign(entries[0][0]);
  }

  const keys = {
    ".": open,
    ContextMenu: open,
    F2: (item) => act(item, "rename"),
    Delete: (item) => act(item, "delete"),
    "Ctrl+x": (item) => {
      carry(item);
      window.envarium.flash(`“${nameOf(item)}” is cut. Go to its new parent label and press Ctrl+V.`);
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
  const standsThere = (target) => (target === head ? null : target) === parentOf(carried);
  let over = null;
  let overSince = 0;

  function hover(target, at) {
    if (over !== target) [over, overSince] = [target, at];
    else if (at - overSince > OPENS_MS && target.getAttribute("aria-expanded") === "false") {
      overSince = at;
      target.querySelector(":scope > .node > a.twist").click();
    }
  }

  function dragged(event) {
    if (event.type === "dragstart") {
      const item = itemOf(event.target);
      if (!item) return;
      carry(item);
      event.dataTransfer.effectAllowed = "move";
      event.dataTransfer.setData("text/plain", nameOf(item));
      return;
    }
    for (const other of document.querySelectorAll("[data-over]")) delete other.dataset.over;
    if (event.type === "dragend") { carry(null); return; }
    const target = targetOf(event);
    if (event.type === "dragleave" || !carried || !target || carried.contains(target)) return;
    if (event.type === "dragover") hover(target, event.timeStamp);
    if (standsThere(target)) return;
    event.preventDefault();
    if (event.type === "dragover") target.dataset.over = "";
    else if (target === head) put(null);
    else drop(carried, target);
  }

  for (const part of [tree, head]) for (const kind of ["dragstart", "dragover", "dragleave", "drop", "dragend"]) part.addEventListener(kind, dragged);
  /* A label is taken by its row; links of the row would be dragged as addresses. */
  tree.addEventListener("pointerdown", (event) => {
    const item = itemOf(event.target);
    if (!item || event.target.closest("a.acts, a.twist")) return;
    item.draggable = true;
    for (const link of item.querySelectorAll(":scope > .node a")) link.draggable = false;
  });

  window.addEventListener("resize", () => shut(true));

  for (const [key, does] of [[".", "What can be done with the label"], ["F2", "Rename it"], ["Delete", "Delete it"], ["Ctrl+x", "Cut it, to move it"], ["Ctrl+v", "Put the cut label below this one"]]) {
    window.envarium.keys.add({ key, does, group: "Tree" });
  }
})();
