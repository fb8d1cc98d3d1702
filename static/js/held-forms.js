/* Forms that take a while to fill in: form[data-held].

   - A submit waits until the server answers: it is never exchanged for the browser's error page. The form says so beside
     the button, and sends itself once the server answers again.
   - What is typed is kept in this browser, by user, address and form, until the server has taken it; after a reload, Back
     or a new visit it is put in again, with a note and a button to discard it.
   - Nothing is sent twice: a form whose answer never came says that it may have arrived.

   data-held="serial" names a field: what was typed on another value of it is offered, not put in.
   data-held-page names the form's own page: after a refusal a reload asks for that, not for what was refused once more.
   data-held-apart on a button, or around it: a script takes what it sends as it is pressed; it is held only while the browser is
   offline.
   data-held-value on a hidden field keeps its value too. "held:restored" on a form tells scripts to show such values;
   "held:kept", sent to a form, says that the server has a draft with all that was typed. */
"use strict";

(() => {
  const TYPING_MS = 300;
  const RETRY_MS = [1000, 2000, 4000, 8000, 15000];
  const PATIENCE_MS = 8000;
  const DAYS_KEPT = 7;
  const PREFIX = "envarium.held ";
  const SENT = "envarium.held-sent";
  const user = document.body?.dataset.user || "";

  /* Storage: without it (private mode) forms are held all the same. */
  function read(storage, key) {
    try { return JSON.parse(storage.getItem(key) || "null"); } catch { return null; }
  }
  function write(storage, key, value) {
    try { storage.setItem(key, JSON.stringify(value)); } catch { /* full, or private mode */ }
  }
  function remove(storage, key) {
    try { storage.removeItem(key); } catch { /* private mode */ }
  }
  /* A desk is the same whatever query led to it, and so is a form with data-held-any-query; a new object is prefilled by
     its query. */
  function keyFor(form) {
    const query = form.matches("[data-decide], [data-edit], [data-held-any-query]") ? "" : location.search;
    return `${PREFIX}${user} ${location.pathname}${query} ${form.getAttribute("id") || form.getAttribute("action") || ""}`;
  }

  function removeOld() {
    try {
      for (const key of Object.keys(localStorage)) {
        if (!key.startsWith(PREFIX)) continue;
        const draft = read(localStorage, key);
        if (!draft || Date.now() - draft.at > DAYS_KEPT * 86400000) localStorage.removeItem(key);
      }
    } catch { /* private mode */ }
  }

  /* Values */
  const UNKEPT = /^(hidden|password|file|submit|button|reset|image)$/;
  const isKept = (field) =>
    field.name && !field.disabled && field.tagName !== "FIELDSET" && field.tagName !== "OUTPUT" &&
    ("heldValue" in field.dataset || !UNKEPT.test(field.type)) && field.type !== "search";
  function identify(field, counts) {
    const id = /^(radio|checkbox)$/.test(field.type) ? `${field.name}=${field.value}` : field.name;
    const number = counts.get(id) || 0;
    counts.set(id, number + 1);
    return `${id}#${number}`;
  }
  function getValue(field) {
    if (/^(radio|checkbox)$/.test(field.type)) return field.checked;
    if (field.type === "select-multiple") return [...field.selectedOptions].map((option) => option.value);
    return field.value;
  }
  function setValue(field, value) {
    if (/^(radio|checkbox)$/.test(field.type)) field.checked = value;
    else if (field.type === "select-multiple") for (const option of field.options) option.selected = value.includes(option.value);
    else field.value = value;
  }
  function fieldsById(form) {
    const counts = new Map();
    return new Map([...form.elements].filter(isKept).map((field) => [identify(field, counts), field]));
  }
  const valuesOf = (form) => Object.fromEntries([...fieldsById(form)].map(([id, field]) => [id, getValue(field)]));
  const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
  const baseOf = (form) => form.elements.namedItem(form.getAttribute("data-held"))?.value || ""; // form.dataset may be a field

  /* Drafts in this browser */
  const timers = new Map();
  function keep(form) {
    timers.delete(form);
    if (!form.isConnected) return;
    write(localStorage, keyFor(form), { at: Date.now(), base: baseOf(form), values: valuesOf(form) });
  }
  function keepSoon(form) {
    window.clearTimeout(timers.get(form));
    timers.set(form, window.setTimeout(keep, TYPING_MS, form));
  }
  function drop(form) {
    window.clearTimeout(timers.get(form));
    timers.delete(form);
    remove(localStorage, keyFor(form));
  }
  function keepAll() {
    for (const form of [...timers.keys()]) { window.clearTimeout(timers.get(form)); keep(form); }
  }

  /* Puts in what was typed; what has no field any more is handed back. */
  function fill(form, values) {
    const fields = fieldsById(form);
    const missing = [];
    const changed = [];
    for (const [id, value] of Object.entries(values)) {
      const field = fields.get(id);
      if (!field) { if (value && value.length !== 0) missing.push({ name: id.replace(/#\d+$/, ""), value }); continue; }
      if (same(getValue(field), value)) continue;
      setValue(field, value);
      changed.push(field);
    }
    const detail = { missing, changed };
    form.dispatchEvent(new CustomEvent("held:restored", { bubbles: true, detail }));
    for (const field of changed) {
      field.closest("details")?.setAttribute("open", "");
      for (const kind of ["input", "change"]) field.dispatchEvent(new Event(kind, { bubbles: true }));
    }
    return detail.missing;
  }

  /* Notes */
  function button(words, act) {
    const made = document.createElement("button");
    made.type = "button";
    made.className = "small";
    made.textContent = words;
    made.addEventListener("click", act);
    return made;
  }
  function note(form, words, ...more) {
    form.querySelector(":scope > .held-note")?.remove();
    const made = document.createElement("div");
    made.className = "note held-note row";
    made.setAttribute("role", "status");
    made.append(words, ...more.flatMap((one) => [" ", one]));
    form.prepend(made);
    return made;
  }
  function when(at) {
    const then = new Date(at);
    const day = then.toDateString() === new Date().toDateString() ? "" : `${then.toLocaleDateString()} `;
    return `${day}${then.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })}`;
  }
  function discard(form) {
    drop(form);
    form.reset();
    form.dispatchEvent(new CustomEvent("held:discarded", { bubbles: true }));
    window.location.reload();
  }
  function tellMissing(made, missing) {
    if (!missing.length) return;
    const box = document.createElement("details");
    const head = document.createElement("summary");
    head.textContent = `${missing.length} value${missing.length > 1 ? "s have" : " has"} no field on this page now`;
    const text = document.createElement("pre");
    text.textContent = missing.map(({ name, value }) => (value === true ? name : `${name}: ${value}`)).join("\n");
    box.append(head, text);
    made.append(box);
  }

  function restore(form, isUnknown) {
    const draft = read(localStorage, keyFor(form));
    const unknown = "It is not known whether what you sent has arrived: the connection was lost. Check before you send it again.";
    if (!draft || same(draft.values, valuesOf(form))) {
      if (draft && !isUnknown) drop(form);
      if (isUnknown) note(form, unknown).classList.add("warn");
      return;
    }
    const put = () => {
      const missing = fill(form, draft.values);
      const made = note(form, isUnknown ? unknown : `What you typed here at ${when(draft.at)} and did not send has been restored.`, button("Discard", () => discard(form)));
      made.classList.toggle("warn", isUnknown);
      tellMissing(made, missing);
    };
    if (draft.base === baseOf(form)) { put(); return; }
    note(
      form, `You typed something here at ${when(draft.at)} that was not sent; the page has changed since.`,
      button("Put it in", put), button("Discard", () => discard(form)),
    );
  }

  /* What was sent is removed from this browser once a page shows that it was taken: a POST answered by a redirect from
     the form's own page. Where nothing shows it, it is not known. */
  function settle() {
    const sent = read(sessionStorage, SENT);
    remove(sessionStorage, SENT);
    if (!sent) return {};
    const navigation = performance.getEntriesByType("navigation")[0];
    const isRefused = navigation?.responseStatus >= 400 || location.pathname.startsWith("/account/login");
    const form = [...document.querySelectorAll("form[data-held]")].find((one) => keyFor(one) === sent.key);
    if (document.body.dataset.method === "POST") {
      if (form) keep(form); // refused, or only looked at: the page has what was typed
      else if (!isRefused) remove(localStorage, sent.key);
      return { shown: form };
    }
    const isReturn = /^(back_forward|reload)$/.test(navigation?.type || "");
    const isFollowed = navigation?.redirectCount > 0 && document.referrer && new URL(document.referrer).pathname === sent.page;
    if (isRefused) return {};
    if (isFollowed && !isReturn) { remove(localStorage, sent.key); return {}; }
    if (!form) write(sessionStorage, SENT, sent);
    return { unknown: form };
  }

  const begun = new WeakSet();
  function begin(settled) {
    for (const form of document.querySelectorAll("form[data-held]")) {
      if (begun.has(form)) continue;
      begun.add(form);
      if (form.hasAttribute("data-keep-typed")) continue; // asked for anew with what was typed: app.js
      if (form !== settled?.shown) restore(form, Boolean(settled) && settled.unknown === form);
    }
  }

  /* The server */
  let asking = null;
  async function ask() {
    const url = document.querySelector("link[rel=icon]").href;
    try {
      const answer = await fetch(url, { method: "HEAD", cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
      return answer.status < 500;
    } catch { return false; }
  }
  function isReachable() {
    asking ||= ask().finally(() => { asking = null; });
    return asking;
  }

  /* Holding: one act a form waits, the last one that was asked for. */
  const held = new Map();
  function place(by, form) {
    const isVisible = by && by.offsetParent !== null && !by.classList.contains("visually-hidden");
    return isVisible ? by : form.querySelector("button.primary") || form.lastElementChild;
  }
  function release(form) {
    const known = held.get(form);
    if (!known) return;
    window.clearTimeout(known.timer);
    known.words.remove();
    held.delete(form);
  }
  function hold(form, by, act) {
    keep(form);
    const known = held.get(form);
    const tries = known?.act === act ? known.tries + 1 : 0;
    if (!tries) release(form);
    const words = tries ? known.words : document.createElement("span");
    const wait = RETRY_MS[Math.min(tries, RETRY_MS.length - 1)];
    held.set(form, { by, act, tries, words, timer: window.setTimeout(attempt, wait, form, by, act) });
    if (tries) return;
    words.className = "held-said";
    words.setAttribute("role", "alert");
    words.append(
      "The server cannot be reached. Nothing was sent. What you filled in is kept in this browser and is sent when the server answers. ",
      button("Do not send it", () => release(form)),
    );
    place(by, form).after(words);
    // Ctrl+S is pressed far from the button of a long form: what it did has to be seen there.
    const { top, bottom } = words.getBoundingClientRect();
    words.classList.toggle("floating", top < 0 || bottom > window.innerHeight);
  }
  async function attempt(form, by, act) {
    const known = held.get(form);
    window.clearTimeout(known?.timer);
    const isUp = await isReachable();
    if (!form.isConnected || (known?.act === act && !held.has(form))) { release(form); return; } // left, or not to be sent
    if (!isUp) { hold(form, by, act); return; }
    release(form);
    act();
  }
  window.addEventListener("online", () => { for (const [form, { by, act }] of held) attempt(form, by, act); });

  /* A form that is sent as a page, or taken over by another script: asked first, then sent once more by the same button. */
  let passing = null;
  const pending = new WeakSet();
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.matches("form[data-held]") || passing === form) return;
    if (event.submitter?.closest("[data-held-apart]") && navigator.onLine && !held.has(form)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    if (pending.has(form)) return;
    pending.add(form);
    const by = event.submitter;
    const act = () => {
      passing = form;
      try { form.requestSubmit(by?.isConnected ? by : undefined); } finally { passing = null; }
    };
    attempt(form, by, act).finally(() => pending.delete(form));
  }, true);
  /* Whoever took it over (htmx, fetch) has prevented the page from being left. */
  window.addEventListener("submit", (event) => {
    if (!event.target.matches("form[data-held]") || event.defaultPrevented) return;
    keepAll();
    write(sessionStorage, SENT, { key: keyFor(event.target), page: location.pathname });
  });
  document.addEventListener("htmx:confirm", (event) => {
    const by = event.target;
    const form = by.form || by.closest?.("form");
    if (!form?.matches("form[data-held]") || by.tagName !== "BUTTON" || event.detail.verb === "get") return;
    event.preventDefault();
    if ("keep" in by.dataset && held.has(form)) return; // what waits keeps the draft first
    attempt(form, by, () => event.detail.issueRequest(true));
  });

  for (const kind of ["input", "change"]) {
    document.addEventListener(kind, (event) => {
      const { form } = event.target;
      if (form?.matches?.("form[data-held]") && isKept(event.target)) keepSoon(form);
    });
  }
  document.addEventListener("held:kept", (event) => {
    if (event.target.matches?.("form[data-held]")) drop(event.target);
  });
  window.addEventListener("pagehide", keepAll);
  window.addEventListener("pageshow", (event) => {
    if (!event.persisted) return;
    const sent = read(sessionStorage, SENT);
    remove(sessionStorage, SENT);
    const form = [...document.querySelectorAll("form[data-held]")].find((one) => keyFor(one) === sent?.key);
    if (form) restore(form, true);
  });
  /* The answer to a refused submit stands at the address that was sent to: a reload would send the refused values again,
     over what was typed since. */
  function nameOwnPage() {
    const form = document.querySelector("form[data-held-page]");
    if (form && document.body.dataset.method === "POST") window.history.replaceState(window.history.state, "", form.getAttribute("data-held-page"));
  }

  document.addEventListener("DOMContentLoaded", () => { removeOld(); nameOwnPage(); begin(settle()); });
  document.addEventListener("htmx:afterSettle", () => begin());
  window.envarium.held = { begin };
})();
