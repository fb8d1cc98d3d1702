/* The taxonomy's tree by keyboard (WAI-ARIA tree): one item can be reached by Tab, arrows move, children load when opened.
   Without this script the same page works by its links. */
"use strict";

(() => {
  const tree = document.getElementById("tree");
  if (!tree) return;
  const TYPING_MS = 700;
  let typed = "";
  let typedAt = 0;
  let writing = 0;

  const items = () => [...tree.querySelectorAll("[role=treeitem]")].filter((item) => item.offsetParent !== null);
  const isOpen = (item) => item.getAttribute("aria-expanded") === "true";
  const canOpen = (item) => item.hasAttribute("aria-expanded");
  const parentOf = (item) => item.parentElement.closest("[role=treeitem]");
  const nameOf = (item) => (item.querySelector(":scope > .node > .name") || item).textContent.trim();
  const childrenUrl = (pk, start = 0) => `${tree.dataset.children.replace("/0/", `/${pk}/`)}?start=${start}&sort=${tree.dataset.sort || ""}`;

  /* Only the item itself is a stop: its links stay for the mouse. */
  function settle(part) {
    for (const link of part.querySelectorAll(".node a, .node button")) link.tabIndex = -1;
  }

  function focus(item) {
    for (const other of tree.querySelectorAll("[role=treeitem][tabindex='0']")) other.tabIndex = -1;
    item.tabIndex = 0;
    item.focus();
    (item.querySelector(":scope > .node") || item).scrollIntoView({ block: "nearest" });
  }

  /* The address says what is open and, once a label is followed, where the focus was: going back finds both. */
  function write(place) {
    window.clearTimeout(writing);
    const url = new URL(window.location.href);
    if ("permalink" in tree.dataset) {
      const open = [...tree.querySelectorAll("[aria-expanded=true]")].map((item) => item.dataset.node);
      if (open.length) url.searchParams.set("open", open.join(",")); else url.searchParams.delete("open");
      url.searchParams.delete("at");
      for (const link of document.querySelectorAll(".tree-head a.sort")) {
        const sorted = new URL(link.href);
        if (open.length) sorted.searchParams.set("open", open.join(",")); else sorted.searchParams.delete("open");
        link.href = sorted.href;
      }
    }
    window.history.replaceState(null, "", `${url.pathname}${url.search.replaceAll("%2C", ",")}${place ? `#${place}` : ""}`);
  }

  /* Once for many that open together: browsers refuse an address that changes hundreds of times. */
  function remember() {
    window.clearTimeout(writing);
    writing = window.setTimeout(write, 30);
  }

  async function fetched(url) {
    const answer = await fetch(url, { headers: { "HX-Request": "true" }, credentials: "same-origin" });
    if (answer.redirected) { window.location.reload(); throw new Error("signed out"); }
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    const holder = document.createElement("template");
    holder.innerHTML = await answer.text();
    return holder.content;
  }

  async function open(item) {
    if (!canOpen(item) || isOpen(item) || item.getAttribute("aria-busy") === "true") return;
    let group = item.querySelector(":scope > [role=group]");
    if (!group) {
      item.setAttribute("aria-busy", "true");
      try {
        const part = await fetched(childrenUrl(item.dataset.node));
        group = document.createElement("ul");
        group.setAttribute("role", "group");
        group.append(part);
        settle(group);
        item.append(group);
      } catch (error) {
        window.envarium.flash(`“${nameOf(item)}” could not be opened: ${error.message}. Try again.`, "bad");
        return;
      } finally {
        item.removeAttribute("aria-busy");
      }
    }
    group.hidden = false;
    item.setAttribute("aria-expanded", "true");
    remember();
  }

  function close(item) {
    const group = item.querySelector(":scope > [role=group]");
    if (!canOpen(item) || !isOpen(item)) return;
    if (group) {
      if (group.contains(document.activeElement) || group.querySelector("[tabindex='0']")) focus(item);
      group.hidden = true;
    }
    item.setAttribute("aria-expanded", "false");
    remember();
  }

  async function more(link) {
    const row = link.parentElement;
    const pk = row.dataset.rest;
    const start = row.dataset.start;
    try {
      const part = await fetched(childrenUrl(pk, start));
      const first = part.querySelector("[role=treeitem]");
      settle(part);
      row.replaceWith(part);
      if (first) focus(first);
    } catch (error) {
      window.envarium.flash(`More labels could not be loaded: ${error.message}. Try again.`, "bad");
    }
  }

  function follow(item) {
    if (item.closest(".rest")) { more(item); return; }
    item.querySelector(":scope > .node > .name").click();
  }

  function step(item, by) {
    const list = items();
    const next = list[list.indexOf(item) + by];
    if (next) focus(next);
  }

  function typeAhead(item, letter, at) {
    typed = at - typedAt < TYPING_MS ? typed + letter : letter;
    typedAt = at;
    const same = [...typed].every((one) => one === typed[0]);
    const wanted = same ? typed[0] : typed;
    const list = items();
    const from = list.indexOf(item) + (same ? 1 : 0);
    const next = [...list.slice(from), ...list.slice(0, from)].find((one) => nameOf(one).toLowerCase().startsWith(wanted));
    if (next) focus(next);
  }

  const moves = {
    ArrowDown: (item) => step(item, 1),
    ArrowUp: (item) => step(item, -1),
    Home: () => focus(items()[0]),
    End: () => focus(items().at(-1)),
    Enter: follow,
    ArrowRight: (item) => {
      if (canOpen(item) && !isOpen(item)) { open(item); return; }
      if (isOpen(item)) focus(item.querySelector(":scope > [role=group] [role=treeitem]") || item);
    },
    ArrowLeft: (item) => {
      if (isOpen(item)) close(item); else if (parentOf(item)) focus(parentOf(item));
    },
    "*": (item) => {
      for (const one of item.closest("ul").querySelectorAll(":scope > [role=treeitem][aria-expanded=false]")) open(one);
    },
  };

  tree.addEventListener("keydown", (event) => {
    const item = event.target.closest("[role=treeitem]");
    if (!item || event.ctrlKey || event.metaKey || event.altKey) return;
    const move = moves[event.key];
    if (move) { event.preventDefault(); move(item); return; }
    const within = event.key === " " && typed && event.timeStamp - typedAt < TYPING_MS; /* a space inside a name */
    if (within || (event.key.length === 1 && /[\p{L}\p{N}]/u.test(event.key))) {
      event.preventDefault();
      typeAhead(item, event.key.toLowerCase(), event.timeStamp);
    }
  });

  tree.addEventListener("click", (event) => {
    const twist = event.target.closest("a.twist, button.twist");
    const rest = event.target.closest(".rest > a");
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (rest) { event.preventDefault(); more(rest); return; }
    if (!twist) {
      if (event.target.closest("a.name")) write(event.target.closest("[role=treeitem]").id);
      return;
    }
    event.preventDefault();
    const item = twist.closest("[role=treeitem]");
    focus(item);
    if (isOpen(item)) close(item); else open(item);
  });

  settle(tree);
  const start = tree.querySelector("[aria-selected=true]") || (window.location.hash && tree.querySelector(`[id="${CSS.escape(window.location.hash.slice(1))}"]`));
  if (start) focus(start);

  const { keys } = window.envarium;
  keys.add({ key: "j", does: "Into the tree", group: "Tree", run: () => focus(tree.querySelector("[role=treeitem][tabindex='0']") || items()[0]) });
  for (const [key, does] of [["ArrowDown", "Next label"], ["ArrowUp", "Label before"], ["ArrowRight", "Open, or go in"], ["ArrowLeft", "Close, or go out"], ["Home", "First label"], ["End", "Last label"], ["*", "Open all beside"], ["Enter", "Go to the label"], ["A–Z", "In the tree: label that begins so"]]) {
    keys.add({ key, does, group: "Tree" });
  }
})();
