/* Ctrl+K: search over everything, and the commands of the page. */
"use strict";

(() => {
  const { keys } = window.envarium;
  const dialog = document.getElementById("palette");
  if (!dialog) return;
  const input = dialog.querySelector("input[type=search]");
  const hits = () => [...dialog.querySelectorAll("[data-hit]")];

  /* What the page itself can do, by the words typed; before the rest where nothing was. */
  function ownActs() {
    const words = input.value.replace(/^[>\s]+/, "").toLowerCase().split(/\s+/).filter(Boolean);
    const acts = [...keys.all().values()].filter(({ does, run, named }) => {
      const parts = does.toLowerCase().split(/[\s:,]+/);
      return run && named !== "Ctrl+k" && !named.startsWith("g ") && words.every((word) => parts.some((part) => part.startsWith(word)));
    });
    const list = document.getElementById("palette-hits");
    if (!list || !acts.length) return;
    const section = document.createElement("section");
    section.setAttribute("role", "group");
    section.setAttribute("aria-labelledby", "in-here");
    const title = document.createElement("h2");
    title.id = "in-here";
    title.textContent = "On this page";
    section.append(title, ...acts.map(shownAct));
    list.querySelector(":scope > p.block")?.remove();
    list[words.length ? "append" : "prepend"](section);
  }
  function shownAct({ key, does, run }) {
    const hit = document.createElement("button");
    hit.type = "button";
    hit.className = "hit";
    hit.dataset.hit = "";
    const what = document.createElement("span");
    what.className = "what";
    what.textContent = does;
    const cap = document.createElement("kbd");
    cap.textContent = key;
    hit.append(what, cap);
    hit.addEventListener("click", (event) => {
      event.stopPropagation(); // a click elsewhere would close the menu that it opens
      dialog.close();
      run(event);
    });
    return hit;
  }

  function open() {
    if (dialog.open) return;
    dialog.showModal();
    input.select();
    input.dispatchEvent(new Event("open"));
  }
  function choose(at) {
    const all = hits();
    all.forEach((hit, index) => hit.toggleAttribute("data-chosen", index === at));
    all[at]?.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", all[at]?.id || "");
  }
  const chosen = () => hits().findIndex((hit) => hit.hasAttribute("data-chosen"));

  dialog.addEventListener("keydown", (event) => {
    const all = hits();
    const at = chosen();
    if (event.key === "Escape") {
      dialog.close();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (all.length) choose((at + (event.key === "ArrowDown" ? 1 : -1) + all.length) % all.length);
    } else if (event.key === "Enter" && event.target === input && all.length) {
      event.preventDefault();
      const hit = all[Math.max(at, 0)];
      if (!hit.href) hit.click();
      else if (event.ctrlKey || event.metaKey) window.open(hit.href, "_blank", "noopener");
      else { dialog.close(); window.location.assign(hit.href); }
    }
  });
  dialog.addEventListener("htmx:afterSettle", () => {
    ownActs();
    hits().forEach((hit, index) => { hit.id = `hit-${index}`; hit.tabIndex = -1; });
    choose(0);
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog || event.target.closest("[data-palette-close]")) dialog.close();
  });
  document.addEventListener("click", (event) => { if (event.target.closest("[data-palette-open]")) open(); });
  keys.add({ key: "Ctrl+k", does: "Search everything", group: "Everywhere", run: open });
})();
