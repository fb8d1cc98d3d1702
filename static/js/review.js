/* The desk of one item: its lease, the person's draft, decisions by keys, and the next item fetched ahead. */
"use strict";

(() => {
  const BEAT_MS = 60000;
  const LEAST_BEAT_MS = 10000;
  const IDLE_MS = 120000;
  const SOON_S = 60;
  const DRAFT_MS = 800;
  const AGAIN_MS = 5000;
  const envarium = (window.envarium = window.envarium || {});
  let desk = null;

  const token = () => document.querySelector("[name=csrfmiddlewaretoken]")?.value || "";
  const post = (url, body, signal) =>
    fetch(url, { method: "POST", body, signal, headers: { "X-CSRFToken": token() }, redirect: "error" });

  function spelled(seconds) {
    return `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;
  }

  /* Seconds spent on the hold in hand, shared by all pages and tabs on which its person works: the server is told of them
     from time to time, so a page that opens meanwhile would count on from too few. */
  const SPENT = "envarium.spent";
  function sharedSpent(hold) {
    try {
      const kept = JSON.parse(localStorage.getItem(SPENT));
      return kept?.hold === hold ? Number(kept.seconds) || 0 : 0;
    } catch { return 0; } // private mode
  }
  function shareSpent(hold, seconds) {
    try { localStorage.setItem(SPENT, JSON.stringify({ hold, seconds })); } catch { /* private mode */ }
  }

  /* One item in hand. What it holds (timers, what was fetched ahead) ends with it. */
  function begin() {
    const root = document.getElementById("item");
    const form = document.querySelector("form[data-decide]");
    if (!root && !form) return;
    end();
    const bar = root?.querySelector("[data-lease]");
    desk = {
      root, form, bar, until: 0, active: Date.now(), shown: Date.now(), spent: Math.max(Number(bar?.dataset.spent || 0), bar ? sharedSpent(bar.dataset.heartbeat) : 0), ahead: null, sending: false, timers: [],
      warned: false, dirty: 0, beating: new AbortController(), keeping: null,
    };
    if (bar) {
      desk.until = Date.now() + Number(bar.dataset.lease) * 1000;
      const every = Math.min(BEAT_MS, Math.max(LEAST_BEAT_MS, Number(bar.dataset.lease) * 333)); // thrice a lease
      desk.timers.push(window.setInterval(countSecond, 1000), window.setInterval(beatIfActive, every));
      showLease();
      window.setTimeout(fetchAhead, 300);
    }
    if (form?.querySelector(":scope > .held-note")) changed(); // what this browser kept goes to the server's draft
  }

  function end() {
    if (!desk) return;
    for (const timer of desk.timers) window.clearInterval(timer);
    window.clearTimeout(desk.dirty);
    desk = null;
  }

  /* Lease */
  function countSecond() {
    if (document.visibilityState === "visible" && Date.now() - desk.active < IDLE_MS) {
      desk.spent = Math.max(desk.spent, sharedSpent(desk.bar.dataset.heartbeat)) + 1;
      shareSpent(desk.bar.dataset.heartbeat, desk.spent);
    }
    showLease();
  }

  function showLease() {
    const left = Math.max(0, Math.round((desk.until - Date.now()) / 1000));
    const shown = desk.bar.querySelector("[data-left]");
    if (shown) shown.textContent = spelled(left);
    desk.bar.querySelector(".lease")?.toggleAttribute("data-soon", left <= SOON_S);
    const warning = document.getElementById("lease-warning");
    if (!warning) return;
    if (left <= SOON_S && !desk.warned) {
      desk.warned = true;
      warning.hidden = false;
    }
    if (left === 0) {
      warning.querySelector("span").textContent = "Your lease ended. What you filled in is kept as a draft.";
    }
  }

  async function beat() {
    const mine = desk;
    const body = new FormData();
    body.set("seconds", String(mine.spent));
    let answer;
    try { answer = await post(mine.bar.dataset.heartbeat, body, mine.beating.signal); } catch { return; }
    if (mine !== desk) return;
    if (answer.status === 409) {
      const { lost } = await answer.json();
      envarium.flash(lost, "bad");
      for (const timer of mine.timers) window.clearInterval(timer);
      const warning = document.getElementById("lease-warning");
      if (warning) warning.hidden = true; // it offered to keep what is gone
      return;
    }
    if (!answer.ok) return;
    const { left, assignment } = await answer.json();
    mine.until = Date.now() + left * 1000;
    mine.warned = false;
    renumber(mine, assignment);
    const warning = document.getElementById("lease-warning");
    if (warning) warning.hidden = true;
    showLease();
  }

  /* Time since the last heartbeat counts as well if the page is left or reloaded without a form being sent. */
  function leave() {
    if (!desk?.bar || desk.sending) return;
    const body = new FormData();
    body.set("seconds", String(desk.spent));
    fetch(desk.bar.dataset.heartbeat, { method: "POST", body, keepalive: true, headers: { "X-CSRFToken": token() } }).catch(() => {});
  }

  /* A lease that had ended is another hold now: all that names it names that. */
  function renumber({ root, form, bar }, assignment) {
    const named = form?.querySelector("[name=assignment]");
    if (named) named.value = String(assignment);
    const there = (url) => url.replace(/\/held\/\d+\//, `/held/${assignment}/`);
    bar.dataset.heartbeat = there(bar.dataset.heartbeat);
    for (const one of root.querySelectorAll("form[action*='/held/']")) one.setAttribute("action", there(one.getAttribute("action")));
  }

  function beatIfActive() {
    if (document.visibilityState === "visible" && Date.now() - desk.active < BEAT_MS) beat();
  }

  /* Draft */
  function changed() {
    if (!desk?.form) return;
    window.clearTimeout(desk.dirty);
    desk.dirty = window.setTimeout(keepDraft, DRAFT_MS);
  }

  function keepDraft() {
    if (!desk) return;
    desk.dirty = 0;
    desk.keeping = keep();
  }

  async function keep() {
    const form = desk?.form;
    if (!form || desk.sending) return;
    const said = form.querySelector("[data-draft-said]");
    try {
      const answer = await post(form.dataset.draft, new FormData(form));
      const tells = answer.headers.get("Content-Type")?.startsWith("application/json");
      const told = tells ? await answer.json() : {};
      const drafted = form.querySelector("[name=drafted]");
      if (answer.ok && drafted) drafted.value = told.saved;
      if (answer.ok && !desk?.dirty) form.dispatchEvent(new CustomEvent("held:kept", { bubbles: true }));
      if (said) said.textContent = answer.ok ? "Draft kept" : told.error || "The draft could not be kept";
    } catch {
      if (said) said.textContent = "The draft is kept in this browser only: the server cannot be reached";
      if (desk?.form === form && !desk.dirty) desk.dirty = window.setTimeout(keepDraft, AGAIN_MS);
    }
  }

  /* A place of the page becomes one that the decision points to. */
  function point(place) {
    const box = document.querySelector("[data-places]");
    if (!box) return;
    const known = [...box.querySelectorAll("input[type=checkbox]")].find((one) => one.value === place);
    if (known) known.checked = true;
    else {
      const tick = document.createElement("input");
      Object.assign(tick, { type: "checkbox", name: "places", value: place, checked: true });
      const label = document.createElement("label");
      label.className = "point";
      label.append(tick, ` ${place}`);
      box.querySelector("#decision-place").before(label);
    }
    const said = desk?.form?.querySelector("[data-draft-said]");
    if (said) said.textContent = `Points to ${place}`;
    changed();
  }

  /* Enter in the field adds what was typed, and the next place can be typed. */
  function typed(event) {
    const field = event.target;
    if (event.key !== "Enter" || event.ctrlKey || event.metaKey || field.id !== "decision-place") return;
    event.preventDefault();
    if (!field.value.trim()) return;
    point(field.value.trim());
    field.value = "";
  }

  /* The next item */
  async function fetchAhead() {
    const mine = desk;
    if (!mine?.bar?.dataset.ahead) return;
    try {
      const answer = await post(mine.bar.dataset.ahead);
      const { url } = await answer.json();
      if (!url || mine !== desk) return;
      const page = await fetch(`${url}?ahead=1`, { redirect: "error" });
      if (page.ok && mine === desk) mine.ahead = { url, html: await page.text() };
    } catch { /* then it is fetched when it is asked for */ }
  }

  function showAhead(ahead, decision) {
    const next = new DOMParser().parseFromString(ahead.html, "text/html");
    const here = document.getElementById("main");
    const there = next.getElementById("main");
    if (!here || !there) { window.location.assign(ahead.url); return; }
    here.replaceWith(document.adoptNode(there));
    document.title = next.title;
    window.history.pushState({}, "", ahead.url);
    shown = address();
    window.scrollTo(0, 0);
    toast(decision);
    envarium.restoreFolds(document.getElementById("main"));
    window.htmx.process(document.getElementById("main"));
    document.getElementById("main").focus({ preventScroll: true });
    begin();
    envarium.held.begin();
    const seen = desk?.bar;
    if (seen) beat();
  }

  function toast({ decision, words, progress, judges }) {
    const root = document.getElementById("item");
    const line = document.createElement("div");
    line.className = "toast";
    line.setAttribute("role", "status");
    const said = document.createElement("span");
    said.textContent = words;
    const form = document.createElement("form");
    form.method = "post";
    form.action = `/review/decisions/${decision}/undo/`;
    const csrf = document.createElement("input");
    csrf.type = "hidden";
    csrf.name = "csrfmiddlewaretoken";
    csrf.value = token();
    const button = document.createElement("button");
    button.className = "small";
    button.dataset.key = "u";
    button.dataset.does = "Undo the last decision";
    button.dataset.undo = "";
    button.textContent = "Undo";
    const key = document.createElement("kbd");
    key.textContent = "u";
    button.append(" ", key);
    form.append(csrf, button);
    const votes = judges.map((vote) => {
      const told = document.createElement("span");
      told.className = "small";
      told.textContent = vote;
      return told;
    });
    line.append(said, ...votes, form);
    const shown = root.querySelector("[data-progress]");
    if (shown) shown.textContent = progress; // it was fetched before this decision was taken
    root.querySelector(".queue-bar").after(line);
  }

  /* What waits to be decided is sent once, after a draft that is under way (it would outlive the decision) and in place
     of a heartbeat (which would find the item given back); where that is refused, the server's page says why. */
  async function decide(event) {
    const form = event.target.closest?.("form[data-decide]");
    if (!form || !desk || event.defaultPrevented) return;
    const seconds = form.querySelector("[name=seconds]");
    if (seconds) seconds.value = String(desk.spent);
    window.clearTimeout(desk.dirty);
    if (desk.sending) { event.preventDefault(); return; }
    desk.sending = true;
    const { ahead } = desk;
    if (!ahead || !form.action.includes("/review/items/")) return;
    event.preventDefault();
    const body = new FormData(form);
    body.set("scripted", "1");
    desk.beating.abort();
    await desk.keeping;
    let answer;
    try { answer = await post(form.action, body); } catch { keepUnsure(form); return; }
    if (answer.ok) {
      const taken = await answer.json();
      form.dispatchEvent(new CustomEvent("held:kept", { bubbles: true }));
      showAhead(ahead, taken);
      return;
    }
    form.submit(); // as a page, which says what is wrong
  }

  /* The connection ended before the answer came: the decision may have been taken. Sent again, it is refused in that case. */
  function keepUnsure(form) {
    desk.sending = false;
    const said = form.querySelector("[data-draft-said]");
    if (said) said.textContent = "It is not known whether your decision arrived: the connection was lost. Decide again, or reload to see.";
    changed();
  }

  /* An attempt is ticked by the key with which lists tick their rows. */
  const row = () => document.activeElement?.closest("[data-row]");
  const ticked = () => row()?.querySelector("[data-pick]")?.click();
  document.addEventListener("DOMContentLoaded", () => {
    if (!document.getElementById("attempts")) return;
    envarium.keys.add({ key: "x", does: "Tick the attempt, or not", group: "Attempts", run: ticked });
  });
  document.addEventListener("DOMContentLoaded", begin);
  document.addEventListener("htmx:afterSettle", () => { if (!desk) begin(); });
  /* Back leads to the item before, which is not on the page any more. A link within the page is no reason to reload it,
     and the replay goes through its steps by itself. */
  const address = () => window.location.pathname + window.location.search;
  let shown = address();
  window.addEventListener("load", () => { shown = address(); }); // other scripts may have named the page by then
  window.addEventListener("popstate", () => {
    if (address() !== shown && !document.querySelector(".page.replay")) window.location.reload();
  });
  document.addEventListener("submit", decide);
  document.addEventListener("submit", ({ target, defaultPrevented }) => {
    if (desk && !defaultPrevented && target.matches?.("form[action*='/review/held/']")) desk.sending = true; // skipped or given back
  });
  window.addEventListener("pagehide", leave);
  document.addEventListener("held:restored", ({ detail }) => {
    const places = detail.missing.filter(({ name }) => name.startsWith("places="));
    for (const { name } of places) point(name.slice("places=".length));
    detail.missing = detail.missing.filter((one) => !places.includes(one));
  });
  document.addEventListener("keydown", typed);
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-point]");
    if (button) point(button.dataset.point);
  });
  document.addEventListener("input", (event) => { if (event.target.closest("form[data-decide]")) changed(); });
  document.addEventListener("click", (event) => { if (event.target.closest("[data-keep-item]")) { desk.active = Date.now(); beat(); } });
  /* The editor of a source keeps its keys to itself; what is typed in it comes as input. */
  for (const kind of ["keydown", "pointerdown", "wheel", "input"]) {
    document.addEventListener(kind, () => { if (desk) desk.active = Date.now(); }, { passive: true });
  }
})();
