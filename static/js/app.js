/* Small habits of every page: rows by keyboard, copying, one visible error, fragments that need a login. */
"use strict";

(() => {
  const { keys } = window.envarium;

  function rows() {
    return [...document.querySelectorAll("[data-rows] [data-row]")].filter((row) => row.offsetParent !== null);
  }

  /* The row to begin with: at the part that the address names, else at an end of the list. */
  function start(list, by) {
    const part = document.querySelector(":target");
    const below = part ? list.findIndex((row) => part.contains(row) || part.compareDocumentPosition(row) & Node.DOCUMENT_POSITION_FOLLOWING) : -1;
    if (below < 0) return by > 0 ? 0 : list.length - 1;
    return by > 0 ? below : below - 1;
  }

  function move(by) {
    const list = rows();
    if (!list.length) return;
    const at = list.findIndex((row) => row.contains(document.activeElement));
    const next = list[Math.max(0, Math.min(list.length - 1, at < 0 ? start(list, by) : at + by))];
    const link = next.querySelector("[data-row-link]") || next.querySelector("a, button") || next;
    link.focus();
    next.scrollIntoView({ block: "nearest" });
  }

  function go(url) {
    return () => { window.location.assign(url); };
  }

  if (document.querySelector("[data-rows]")) {
    keys.add({ key: "j", does: "Next row", group: "List", repeat: true, run: () => move(1) });
    keys.add({ key: "k", does: "Row before", group: "List", repeat: true, run: () => move(-1) });
    keys.add({ key: "Enter", does: "Open the row", group: "List" });
  }
  for (const link of document.querySelectorAll(".rail [data-go]")) {
    keys.add({ key: `g ${link.dataset.go}`, does: link.dataset.does || link.textContent.trim(), group: "Go to", run: go(link.href) });
  }

  /* A name that is to be changed is typed over. */
  const named = document.querySelector("[autofocus][data-select]");
  if (named) { named.focus(); named.select(); }

  /* What a person folded or opened on one page stays so on the next one that has it. */
  const foldKey = (details) => `envarium.closed.${details.dataset.remember}`;
  function restoreFolds(root) {
    for (const details of root.querySelectorAll("details[data-remember]")) {
      try {
        const closed = localStorage.getItem(foldKey(details));
        if (closed !== null) details.open = closed === "0";
      } catch { /* private mode */ }
    }
  }
  document.addEventListener("toggle", (event) => {
    if (!event.target.dataset?.remember) return;
    try { localStorage.setItem(foldKey(event.target), event.target.open ? "0" : "1"); } catch { /* private mode */ }
  }, true);
  window.envarium.restoreFolds = restoreFolds;
  restoreFolds(document);

  function flash(text, kind) {
    const box = document.getElementById("flash");
    const note = document.createElement("p");
    note.className = `note ${kind}`;
    note.setAttribute("role", kind === "bad" ? "alert" : "status");
    note.textContent = text;
    box.replaceChildren(note);
    return note;
  }
  window.envarium.flash = flash;

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) {
      const text = button.dataset.copy === "here" ? window.location.href : new URL(button.dataset.copy, window.location.href).href;
      try {
        await navigator.clipboard.writeText(text);
        flash("Link copied.", "good");
      } catch {
        flash(`The browser did not allow copying. The link is ${text}`, "bad");
      }
    }
    const copier = event.target.closest("[data-copy-text]");
    if (copier) {
      try {
        await navigator.clipboard.writeText(copier.dataset.copyText);
        flash("Copied.", "good");
      } catch {
        flash("The browser did not allow copying. Mark the text and copy it by hand.", "bad");
      }
    }
    for (const menu of document.querySelectorAll("details[data-menu][open]")) {
      if (!menu.contains(event.target)) menu.open = false;
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const menu of document.querySelectorAll("details[data-menu][open]")) {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
  });

  for (const tab of document.querySelectorAll(".tabs [aria-current], .rail [aria-current]")) {
    tab.scrollIntoView({ block: "nearest", inline: "center" });
  }

  function unescaped(text) {
    try { return decodeURIComponent(text); } catch { return text; }
  }

  function openTarget() {
    const target = document.getElementById(unescaped(window.location.hash.slice(1)));
    for (let at = target; at; at = at.parentElement) {
      if (at.tagName === "DETAILS") at.open = true;
    }
    if (target) target.scrollIntoView({ block: "start" });
  }
  window.addEventListener("hashchange", openTarget);
  openTarget();

  /* Ctrl+Z undoes what was just decided: the first button that does, unless somebody is writing. */
  document.addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.shiftKey || event.key !== "z") return;
    const field = event.target.matches("textarea, select, input:not([type=checkbox], [type=radio])");
    const button = field || event.target.isContentEditable ? null : document.querySelector("[data-undo]");
    if (button) { event.preventDefault(); button.click(); }
  });

  document.addEventListener("submit", (event) => {
    const ask = event.target.dataset.confirm;
    if (ask && !window.confirm(ask)) event.preventDefault();
  });

  /* A part that is asked for again keeps where it was scrolled to and what was unfolded; one read at its end stays at its end. */
  const scrolled = new Map();
  const opened = new Map();
  document.addEventListener("htmx:beforeSwap", (event) => {
    for (const box of event.detail.target.querySelectorAll("[data-keep-scroll][id]")) {
      const end = box.scrollTop > 0 && box.scrollTop + box.clientHeight >= box.scrollHeight - 4;
      scrolled.set(box.id, end ? Infinity : box.scrollTop);
    }
  });
  document.addEventListener("htmx:beforeSwap", (event) => {
    const part = event.detail.target;
    if ("keepOpen" in part.dataset) opened.set(part.id, [...part.querySelectorAll("details")].map((one) => one.open));
  });
  document.addEventListener("htmx:afterSettle", () => {
    for (const [id, states] of opened) {
      document.getElementById(id)?.querySelectorAll("details").forEach((one, at) => { one.open = states[at] ?? one.open; });
    }
    opened.clear();
    for (const [id, top] of scrolled) {
      const box = document.getElementById(id);
      if (box) box.scrollTop = Math.min(top, box.scrollHeight);
    }
    scrolled.clear();
  });

  /* A form that is asked for anew: what was typed after it was sent stays in the form that comes, which is told of it.
     (form.dataset may be a field of it.) */
  const sent = new Map();
  const typed = new Map();
  const entries = (form) => new Map([...new FormData(form)].filter(([name]) => form.elements[name].type !== "hidden"));
  document.addEventListener("htmx:beforeRequest", (event) => {
    const form = event.detail.target;
    if (form?.hasAttribute("data-keep-typed")) sent.set(form.id, entries(form));
  });
  document.addEventListener("htmx:beforeSwap", (event) => {
    const form = event.detail.target;
    const before = sent.get(form.id);
    if (!before) return;
    sent.delete(form.id);
    typed.set(form.id, [...entries(form)].filter(([name, value]) => before.get(name) !== value));
  });
  document.addEventListener("htmx:afterSwap", () => {
    for (const [id, values] of typed) {
      const form = document.getElementById(id);
      for (const [name, value] of values) if (form?.elements[name]) form.elements[name].value = value;
    }
  });
  document.addEventListener("htmx:afterSettle", () => {
    for (const [id, values] of typed) {
      typed.delete(id);
      if (values.length) document.getElementById(id)?.dispatchEvent(new Event("change", { bubbles: true }));
    }
  });

  /* What was typed into such a form stands there again after Back or a reload: it is asked for anew with that. */
  const once = new Set(["csrfmiddlewaretoken", "token"]);
  const kept = (form) => JSON.stringify([...new FormData(form)].filter(([name]) => !once.has(name)));
  const place = (form) => `typed ${location.pathname}${location.search}#${form.id}`;
  window.addEventListener("pagehide", () => {
    for (const form of document.querySelectorAll("form[data-keep-typed]")) {
      try { sessionStorage.setItem(place(form), kept(form)); } catch { /* private mode: the form comes as it was at first */ }
    }
  });
  window.addEventListener("pageshow", (event) => {
    const way = performance.getEntriesByType("navigation")[0]?.type;
    if (event.persisted || !/^(back_forward|reload)$/.test(way)) return;
    for (const form of document.querySelectorAll("form[data-keep-typed]")) {
      let before = null;
      try { before = sessionStorage.getItem(place(form)); } catch { return; }
      if (!before || before === kept(form)) continue;
      const asked = { source: form, target: form, select: `#${form.id}`, swap: "outerHTML" };
      window.htmx.ajax("POST", form.dataset.keepTyped, { ...asked, values: Object.fromEntries(JSON.parse(before)) });
    }
  });

  /* Who stood on something that a swap took away stands on the new part, not at the top of the page. */
  let stood = false;
  document.addEventListener("htmx:beforeSwap", (event) => {
    // On the body: a part that follows at once takes away what the one before was about to give back.
    if (document.activeElement !== document.body) stood = event.detail.target.contains(document.activeElement);
  });
  document.addEventListener("htmx:afterSettle", (event) => {
    if (!stood || (document.activeElement && document.activeElement !== document.body)) return;
    stood = false;
    const part = (event.target.id && document.getElementById(event.target.id)) || document.getElementById("main");
    if (!part.hasAttribute("tabindex")) part.tabIndex = -1;
    part.focus({ preventScroll: true });
  });

  /* A note says what a click began. Once the part that was followed is followed no more, it has ended, and the part says
     how: a green note beside it would not be true for long. */
  const followed = (part) => Boolean(part) && ("live" in part.dataset || /^every /.test(part.getAttribute("hx-trigger") || ""));
  const following = new Set();
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.target.id && followed(event.detail.target)) following.add(event.detail.target.id);
  });
  document.addEventListener("htmx:afterSettle", () => {
    for (const id of following) {
      following.delete(id);
      if (followed(document.getElementById(id))) continue;
      for (const note of document.querySelectorAll("#flash .note:not(.bad, .warn)")) note.remove();
    }
  });

  /* A part that is asked for every second is not exchanged under a pressed pointer: the click would be lost. */
  let pressed = null;
  document.addEventListener("pointerdown", (event) => { pressed = event.target; });
  for (const end of ["pointerup", "pointercancel"]) document.addEventListener(end, () => { pressed = null; });
  document.addEventListener("htmx:beforeSwap", (event) => {
    const part = event.detail.target;
    if (pressed && "keepOpen" in part.dataset && part.contains(pressed)) event.detail.shouldSwap = false;
  });

  /* htmx: a fragment that answers with the login page sends the whole page there; failures are said once. */
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (new URL(event.detail.xhr.responseURL || "/", window.location.href).pathname.startsWith("/account/login")) {
      event.detail.shouldSwap = false;
      window.location.reload();
    }
  });
  document.addEventListener("htmx:responseError", (event) => {
    const answer = event.detail.xhr;
    const refusal = answer.status === 422 && /^text\/plain/.test(answer.getResponseHeader("Content-Type")) ? answer.responseText : "";
    const words = `The server answered ${answer.status} to a part of this page. Reload to see its current state.`;
    flash(refusal || words, "bad");
  });
  document.addEventListener("htmx:sendError", () => {
    flash("The server cannot be reached. The page may be outdated; the request is repeated.", "bad");
  });
})();
