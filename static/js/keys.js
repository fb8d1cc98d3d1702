/* One registry of keys. Pages register theirs; `?` shows them all; silent while somebody types.

   envarium.keys.add({key: "f", does: "Fork here", group: "Replay", run: (event) => {}, repeat: false});
   A key is KeyboardEvent.key ("j", "ArrowDown", "?", "}"), a pair ("g e") or has a modifier ("Ctrl+Enter").
   Without `run` a key is only listed on the sheet (the browser does it).
   In HTML: data-key="e" data-does="Export" [data-group="Page"] on a link, button or field.
   Single keys can be switched off, and each be given another letter or digit, on the sheet; this browser remembers it. */
"use strict";

(() => {
  const envarium = (window.envarium = window.envarium || {});
  const bindings = new Map();
  const PAIR_MS = 1200;
  const OFF = "envarium.letters-off";
  const CHOSEN = "envarium.keys-chosen";
  /* What comes and goes on a page keeps its key: it would act on something else. */
  const KEPT = { u: "Undo", j: "Next row", k: "Previous row", x: "Tick the row", n: "Next", p: "Previous" };
  let first = "";
  let firstAt = 0;

  const lettersOff = () => {
    try { return localStorage.getItem(OFF) === "1"; } catch { return false; }
  };
  /* The person's own keys: from the page's key to the one that they chose. */
  function chosen() {
    try {
      const kept = JSON.parse(localStorage.getItem(CHOSEN) || "{}");
      return kept && typeof kept === "object" && !Array.isArray(kept) ? kept : {};
    } catch { return {}; }
  }
  function choose(key, own) {
    const kept = chosen();
    if (own === null || own === key) delete kept[key]; else kept[key] = own;
    try { localStorage.setItem(CHOSEN, JSON.stringify(kept)); } catch { /* private mode: nothing is remembered */ }
    hint();
  }
  const typing = (element) =>
    element && (element.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName)) &&
    !/^(checkbox|radio|button|submit|file)$/.test(element.type || "");
  /* A slider takes arrows and their kin: letters belong to the page while it has the focus. */
  const takes = (element, name) => typing(element) && !(element.type === "range" && name.length === 1);
  const named = (event) => (event.ctrlKey || event.metaKey ? "Ctrl+" : "") + (event.altKey ? "Alt+" : "") + event.key;
  const single = (key) => key.length === 1 || key.includes(" ");

  function add(binding) {
    bindings.set(binding.key, { group: "Page", repeat: false, ...binding });
  }

  function act(element) {
    if (typing(element)) { element.focus(); if (element.select) element.select(); return; }
    element.click();
    const menu = element.closest("summary")?.closest("details[data-menu][open]");
    menu?.querySelector(":is(input, select, textarea, button):not([type=hidden], :disabled)")?.focus();
  }

  function all() {
    const own = chosen();
    const found = new Map();
    for (const binding of bindings.values()) {
      const key = own[binding.key] || binding.key;
      found.set(key, { ...binding, key, named: binding.key });
    }
    for (const element of document.querySelectorAll("[data-key]")) {
      if (element.closest("[hidden]") || element.disabled) continue;
      const named = element.dataset.key;
      const key = own[named] || named;
      if (key === named && found.get(key) && found.get(key).named !== named) continue;
      found.set(key, {
        key,
        named,
        does: element.dataset.does || element.textContent.trim(),
        group: element.dataset.group || "Page",
        run: () => act(element),
      });
    }
    return found;
  }

  function pressed(event) {
    if (event.defaultPrevented || event.isComposing) return;
    const name = named(event);
    if (event.key === "Escape" && typing(event.target)) { event.target.blur(); return; }
    if (document.querySelector("dialog[open]") || (takes(event.target, name) && !name.startsWith("Ctrl+"))) return;
    const found = all();
    const pair = first && event.timeStamp - firstAt < PAIR_MS ? found.get(`${first} ${name}`) : undefined;
    const binding = pair || found.get(name);
    const starts = !pair && [...found.keys()].some((key) => key.startsWith(`${name} `));
    first = starts ? name : "";
    firstAt = event.timeStamp;
    if (!binding || !binding.run || (event.repeat && !binding.repeat)) return;
    if (single(binding.key) && binding.key !== "?" && lettersOff()) return;
    event.preventDefault();
    binding.run(event);
  }

  function shown(key) {
    const box = document.createElement("span");
    for (const part of key.split(" ")) {
      const cap = document.createElement("kbd");
      cap.textContent = part.replace("ArrowDown", "↓").replace("ArrowUp", "↑").replace("ArrowLeft", "←").replace("ArrowRight", "→");
      box.append(cap, " ");
    }
    return box;
  }

  function fill(dialog) {
    const groups = new Map();
    for (const binding of all().values()) {
      if (!groups.has(binding.group)) groups.set(binding.group, []);
      groups.get(binding.group).push(binding);
    }
    const body = dialog.querySelector(".body");
    body.replaceChildren();
    for (const [group, rows] of groups) {
      const section = document.createElement("section");
      const title = document.createElement("h3");
      title.textContent = group;
      const list = document.createElement("dl");
      for (const row of rows) {
        const line = document.createElement("div");
        const does = document.createElement("dt");
        does.textContent = row.does;
        const key = document.createElement("dd");
        key.append(row.key.length === 1 ? remap(row) : shown(row.key));
        line.append(does, key);
        list.append(line);
      }
      section.append(title, list);
      body.append(section);
    }
  }

  /* Why a row cannot have this key: another has it, or begins with it ("g t"). Empty where it can. */
  function takenBy(row, key) {
    const others = [...all().values()].filter((one) => one.named !== row.named);
    const same = others.find((one) => one.key === key) || others.find((one) => one.key.startsWith(`${key} `));
    if (same) return `${key} is the key of “${same.does}” here. Give that one another key first.`;
    return KEPT[key] && row.named !== key ? `${key} is the key of “${KEPT[key]}” on many pages. Choose another one.` : "";
  }

  /* A button that takes the next letter or digit as the key; Backspace takes the page's own again, Escape changes nothing. */
  function remap(row) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "plain remap";
    button.append(shown(row.key));
    button.setAttribute("aria-label", `${row.does}: key ${row.key}. Change it`);
    button.addEventListener("click", () => {
      const dialog = button.closest("dialog");
      const said = dialog.querySelector("[data-keys-said]");
      button.textContent = "press a key";
      const taken = (event) => {
        if (["Shift", "Control", "Alt", "Meta", "Tab"].includes(event.key)) return;
        event.preventDefault();
        event.stopPropagation();
        button.removeEventListener("keydown", taken);
        if (event.key === "Backspace") choose(row.named, null);
        else if (/^[\p{L}\p{N}]$/u.test(event.key) && !event.ctrlKey && !event.metaKey && !event.altKey) {
          const why = takenBy(row, event.key);
          if (why) said.textContent = why;
          else { choose(row.named, event.key); said.textContent = `“${row.does}” is ${event.key} now.`; }
        } else if (event.key !== "Escape") said.textContent = "Choose a letter or a digit.";
        fill(dialog);
        [...dialog.querySelectorAll(".remap")].find((one) => one.dataset.named === row.named)?.focus();
      };
      button.addEventListener("keydown", taken);
    });
    button.dataset.named = row.named;
    return button;
  }

  /* The hints on buttons say the keys that hold. */
  function hint() {
    const own = chosen();
    for (const element of document.querySelectorAll("[data-key]")) {
      const cap = element.querySelector("kbd") || element.parentElement?.querySelector(":scope > kbd");
      if (!cap) continue;
      const named = element.dataset.key;
      if (cap.dataset.named === undefined && cap.textContent.trim() !== named) continue;
      cap.dataset.named = named;
      cap.textContent = own[named] || named;
    }
  }

  function sheet() {
    const dialog = document.getElementById("keys");
    if (!dialog || dialog.open) return;
    fill(dialog);
    dialog.querySelector("[name=letters]").checked = !lettersOff();
    dialog.showModal();
  }

  document.addEventListener("keydown", pressed);
  document.addEventListener("change", (event) => {
    if (event.target.name !== "letters" || !event.target.closest("#keys")) return;
    try { localStorage.setItem(OFF, event.target.checked ? "0" : "1"); } catch { /* private mode: for this page only */ }
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-keys-open]")) sheet();
    if (event.target.id === "keys") event.target.close();
    if (event.target.closest("[data-keys-reset]")) {
      try { localStorage.removeItem(CHOSEN); } catch { /* nothing is remembered */ }
      hint();
      fill(document.getElementById("keys"));
    }
  });
  document.addEventListener("DOMContentLoaded", hint);
  document.addEventListener("htmx:afterSettle", hint);

  add({ key: "?", does: "Show the keys", group: "Everywhere", run: sheet });
  envarium.keys = { add, all, remove: (key) => bindings.delete(key), sheet };
})();
