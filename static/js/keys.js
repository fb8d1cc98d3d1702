/* One registry of keys. Pages register theirs; `?` shows them all; silent while somebody types.

   envarium.keys.add({key: "f", does: "Fork here", group: "Replay", run: (event) => {}, repeat: false});
   A key is KeyboardEvent.key ("j", "ArrowDown", "?", "}"), a pair ("g e") or has a modifier ("Ctrl+Enter").
   Without `run` a key is only listed on the sheet (the browser does it).
   In HTML: data-key="e" data-does="Export" [data-group="Page"] on a link, button or field. */
"use strict";

(() => {
  const envarium = (window.envarium = window.envarium || {});
  const bindings = new Map();
  const PAIR_MS = 1200;
  const OFF = "envarium.letters-off";
  let first = "";
  let firstAt = 0;

  const lettersOff = () => {
    try { return localStorage.getItem(OFF) === "1"; } catch { return false; }
  };
  const typing = (element) =>
    element && (element.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName)) &&
    !/^(checkbox|radio|button|submit|file)$/.test(element.type || "");
  const named = (event) => (event.ctrlKey || event.metaKey ? "Ctrl+" : "") + (event.altKey ? "Alt+" : "") + event.key;
  const single = (key) => key.length === 1 || key.includes(" ");

  function add(binding) {
    bindings.set(binding.key, { group: "Page", repeat: false, ...binding });
  }

  function act(element) {
    if (typing(element)) { element.focus(); if (element.select) element.select(); return; }
    element.click();
  }

  function all() {
    const found = new Map(bindings);
    for (const element of document.querySelectorAll("[data-key]")) {
      if (element.closest("[hidden]") || element.disabled) continue;
      found.set(element.dataset.key, {
        key: element.dataset.key,
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
    if (document.querySelector("dialog[open]") || (typing(event.target) && !name.startsWith("Ctrl+"))) return;
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
        key.append(shown(row.key));
        line.append(does, key);
        list.append(line);
      }
      section.append(title, list);
      body.append(section);
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
  });

  add({ key: "?", does: "Show the keys", group: "Everywhere", run: sheet });
  envarium.keys = { add, remove: (key) => bindings.delete(key), sheet };
})();
