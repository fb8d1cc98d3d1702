/* The replay: moves between steps without loading the page again. Every link works without this file.

   The page is a function of its URL. A move fetches two small panels (kept and fetched ahead for the
   neighbours), marks the step in the list and the matrix, and writes the URL. */
"use strict";

(() => {
  document.documentElement.classList.add("js");
  const desk = document.getElementById("desk");
  if (!desk) return;
  const base = desk.dataset.url;
  let version = desk.dataset.version;
  let last = Number(desk.dataset.last || 0);
  const panels = document.getElementById("panels");
  const checks = document.getElementById("checks");
  const list = document.getElementById("steps");
  const said = document.getElementById("said");
  const KEPT = 80;
  const PANEL = ["path", "view", "find", "full"];
  const kept = new Map();
  const rows = [];
  const rowOf = new Map();
  const state = { step: Number(desk.dataset.step), direction: 1, moved: -Infinity };
  let asked = 0;

  function read() {
    rows.length = 0;
    rowOf.clear();
    for (const link of list.querySelectorAll("a")) {
      const row = { link, line: link.parentElement, step: Number(link.dataset.step), marks: link.dataset.marks, kind: link.dataset.kind };
      row.fits = fits(row);
      rows.push(row);
      rowOf.set(row.step, row);
    }
  }

  /* Whether the filters above the list leave a row in it. */
  function fits(row) {
    const only = document.getElementById("only").value;
    const tool = document.getElementById("tool").value;
    const letter = { flips: "f", changes: "c", errors: "e", diverged: "d", injected: "i", "user calls": "u" }[only];
    const kind = only === "all" || (letter ? row.marks.includes(letter) : row.kind === only);
    return kind && (tool === "" || (row.link.querySelector(".k").lastChild?.textContent ?? "") === tool);
  }

  function parameters() {
    return new URLSearchParams(window.location.search);
  }

  function fragment(step, query) {
    const wanted = new URLSearchParams();
    for (const name of PANEL) if (query.get(name)) wanted.set(name, query.get(name));
    wanted.set("v", version);
    return `${base}steps/${step}/?${wanted}`;
  }

  async function load(url) {
    const response = await fetch(url, { headers: { "X-Requested-With": "fetch" }, redirect: "follow" });
    if (response.redirected && new URL(response.url).pathname.startsWith("/account/")) { window.location.reload(); throw new Error("signed out"); }
    if (!response.ok) throw new Error(`The server answered ${response.status}`);
    return response.text();
  }

  function get(url) {
    let promise = kept.get(url);
    kept.delete(url);
    if (!promise) {
      promise = load(url);
      promise.catch(() => kept.delete(url));
    }
    kept.set(url, promise);
    if (kept.size > KEPT) kept.delete(kept.keys().next().value);
    return promise;
  }

  function ahead() {
    const query = parameters();
    for (const name of ["path", "find", "full"]) query.delete(name);
    for (const by of [1, -1, 2, 3]) {
      const step = state.step + by * state.direction;
      if (step >= 0 && step <= last) get(fragment(step, query)).catch(() => {});
    }
  }

  function mark(step) {
    for (const link of document.querySelectorAll("#steps [aria-current], #hits [aria-current]")) link.removeAttribute("aria-current");
    for (const row of rows) row.line.hidden = !row.fits && row.step !== step; /* the current step is seen whatever is filtered */
    const row = rowOf.get(step);
    if (row) {
      row.link.setAttribute("aria-current", "step");
      reveal(row.line);
    }
    for (const hit of document.querySelectorAll(`#hits [data-step="${step}"]`)) hit.setAttribute("aria-current", "true");
    for (const input of document.querySelectorAll("#finder [name=step], #checks [name=step]")) input.value = step;
    column(step);
  }

  /* The step list scrolls by itself; the page does not move. */
  function reveal(line) {
    const box = line.closest(".scroll");
    const top = line.offsetTop - box.offsetTop;
    const room = Math.min(56, box.clientHeight / 4);
    if (top < box.scrollTop + room) box.scrollTop = top - room;
    else if (top + line.offsetHeight > box.scrollTop + box.clientHeight - room) box.scrollTop = top + line.offsetHeight - box.clientHeight + room;
  }

  function column(step) {
    const table = checks.querySelector("table.flips");
    const head = table ? [...table.tHead.rows[0].cells].filter((cell) => cell.dataset.col) : [];
    const at = head.findLastIndex((cell) => Number(cell.dataset.col) <= step);
    const holding = document.getElementById("holding");
    if (holding) holding.textContent = `at step ${step}: ${held(step)}`;
    if (at < 0) return;
    const cell = head[at];
    const overlay = document.getElementById("column");
    for (const old of table.querySelectorAll(".now")) old.classList.remove("now");
    if (overlay) {
      cell.classList.add("now");
      overlay.hidden = false;
      overlay.style.left = `${cell.offsetLeft}px`;
      overlay.style.width = `${cell.offsetWidth}px`;
    } else {
      for (const row of table.rows) {
        const each = row.cells[at + 1];
        if (each && !each.classList.contains("fill") && !each.classList.contains("steady")) each.classList.add("now");
      }
    }
    const box = table.closest(".scroll");
    const wide = table.rows[0].cells[0].offsetWidth;
    if (cell.offsetLeft < box.scrollLeft + wide) box.scrollLeft = cell.offsetLeft - wide - 40;
    else if (cell.offsetLeft + cell.offsetWidth > box.scrollLeft + box.clientWidth) box.scrollLeft = cell.offsetLeft + cell.offsetWidth - box.clientWidth + 40;
  }

  function held(step) {
    const count = panels.querySelector("[data-held]");
    return count && Number(count.dataset.at) === step ? count.dataset.held : "";
  }

  /* What is above "Next" may be longer or shorter at another step: the bar stays where a pointer left it. */
  function show(html) {
    const top = panels.querySelector(".step-panel .bar").getBoundingClientRect().top;
    const focused = panels.contains(document.activeElement) ? document.activeElement.closest("section")?.className : "";
    panels.innerHTML = html;
    window.envarium.restoreFolds(panels);
    const chosen = panels.querySelector(".tree a[aria-current]");
    const box = chosen?.closest(".scroll");
    if (box) box.scrollTop += chosen.getBoundingClientRect().top - box.getBoundingClientRect().top - box.clientHeight / 3;
    panels.style.minHeight = "";
    const moved = panels.querySelector(".step-panel .bar").getBoundingClientRect().top - top;
    const root = document.documentElement;
    const missing = window.scrollY + moved + window.innerHeight - root.scrollHeight;
    if (moved && missing > 0) panels.style.minHeight = `${panels.offsetHeight + missing}px`;
    if (moved) window.scrollBy(0, moved);
    if (focused) panels.querySelector(`.${CSS.escape(focused.split(" ")[0])} .scroll`)?.focus({ preventScroll: true });
  }

  /* changes: query parameters to set (null removes); how: "push" or "replace" or "" (the URL is right already). */
  async function go(step, changes = {}, how = "push") {
    const query = parameters();
    for (const name of ["path", "find", "full"]) query.delete(name);
    for (const [name, value] of Object.entries(changes)) {
      if (value === null || value === "") query.delete(name); else query.set(name, value);
    }
    query.set("step", step);
    if (!rowOf.has(step)) { window.location.assign(`${base}?${query}`); return; }
    const turn = ++asked;
    state.direction = step < state.step ? -1 : 1;
    state.step = step;
    mark(step);
    if (how) window.history[`${how}State`]({ step }, "", `${base}?${query}`);
    desk.dispatchEvent(new CustomEvent("replay:going", { detail: { step } }));
    desk.setAttribute("aria-busy", "true");
    try {
      const html = await get(fragment(step, query));
      if (turn !== asked) return;
      show(html);
      column(step);
      document.title = document.title.replace(/^Step \d+/, `Step ${step}`);
      const row = rowOf.get(step);
      said.textContent = `Step ${step}, ${row.link.textContent.trim().replace(/\s+/g, " ")}`;
      window.setTimeout(() => { if (turn === asked) ahead(); }, 30);
    } catch (error) {
      if (turn === asked) window.envarium.flash(`Step ${step} could not be loaded (${error.message}). Press the key again to retry.`, "bad");
    } finally {
      if (turn === asked) desk.removeAttribute("aria-busy");
    }
  }

  /* A run of j or k is one entry of the history: Back leaves it, instead of walking through it. */
  function walk(step) {
    const now = performance.now();
    const how = now - state.moved < 1500 ? "replace" : "push";
    state.moved = now;
    return go(step, {}, how);
  }

  function filter() {
    const only = document.getElementById("only").value;
    const tool = document.getElementById("tool").value;
    let shown = 0;
    for (const row of rows) {
      row.fits = fits(row);
      shown += row.fits;
    }
    mark(state.step);
    document.getElementById("none").hidden = shown > 0;
    document.getElementById("shown").textContent = shown === rows.length ? `${shown}` : `${shown} of ${rows.length}`;
    const query = parameters();
    if (only === "all") query.delete("only"); else query.set("only", only);
    if (tool) query.set("tool", tool); else query.delete("tool");
    window.history.replaceState({ step: state.step }, "", `${base}?${query}`);
  }

  /* A run that is being made: lines for new steps, and in the end all lines again with what the checks say. */
  function renew(nextVersion) {
    version = nextVersion;
    read();
    mark(state.step);
    filter();
  }

  function append(html, newest, nextVersion) {
    list.insertAdjacentHTML("beforeend", html);
    const wasLast = state.step === last;
    last = newest;
    renew(nextVersion);
    for (const link of panels.querySelectorAll(".which .muted")) if (link.textContent.startsWith("of ")) link.textContent = `of ${last}`;
    if (wasLast && !panels.querySelector("[rel=next]")) get(fragment(state.step, parameters())).then((text) => { if (state.step < last) show(text); }).catch(() => {});
  }

  function refresh(html, nextVersion) {
    list.innerHTML = html;
    renew(nextVersion);
    go(state.step, {}, "");
  }

  async function search(text) {
    const query = parameters();
    if (text) query.set("q", text); else query.delete("q");
    window.history.replaceState({ step: state.step }, "", `${base}?${query}`);
    const box = document.getElementById("hits");
    if (!text) { box.replaceChildren(); return; }
    try {
      box.innerHTML = await load(`${base}search/?${query}`);
      const hits = [...box.querySelectorAll("[data-step]")];
      const first = hits.find((link) => Number(link.dataset.step) >= state.step) || hits[0];
      if (!first) return;
      first.focus();
      if (Number(first.dataset.step) !== state.step) await go(Number(first.dataset.step));
    } catch (error) {
      window.envarium.flash(`The search failed (${error.message}).`, "bad");
    }
  }

  async function expand(link) {
    const open = link.getAttribute("aria-expanded") === "true";
    const inner = link.parentElement.querySelector(":scope > ul");
    if (inner) inner.hidden = open;
    else {
      const html = await load(`${base}steps/${state.step}/branch/?path=${encodeURIComponent(link.dataset.branch)}`);
      link.parentElement.insertAdjacentHTML("beforeend", html);
    }
    link.setAttribute("aria-expanded", String(!open));
  }

  async function more(link) {
    const html = await load(link.href);
    const line = link.parentElement;
    const holder = document.createElement("template");
    holder.innerHTML = html;
    line.replaceWith(...holder.content.querySelector("ul").children);
  }

  async function wholeBranch(link) {
    const holder = document.createElement("template");
    holder.innerHTML = await load(link.href);
    link.closest("ul").replaceWith(holder.content.querySelector("ul"));
  }

  async function checkSource(link) {
    const dialog = document.getElementById("check");
    const body = dialog.querySelector(".body");
    const response = await fetch(link.href, { headers: { "HX-Request": "true" } });
    if (!response.ok) { window.location.assign(link.href); return; }
    body.innerHTML = await response.text();
    dialog.showModal();
    body.focus();
  }

  async function matrix(whole) {
    const query = parameters();
    if (whole) query.set("matrix", whole); else query.delete("matrix");
    window.history.replaceState({ step: state.step }, "", `${base}?${query}`);
    checks.innerHTML = await load(`${base}matrix/?${query}`);
    window.envarium.restoreFolds(checks);
    column(state.step);
  }

  function follow(link) {
    const data = link.dataset;
    const path = parameters().get("path");
    if ("check" in data) return checkSource(link);
    if ("branch" in data) return expand(link);
    if ("more" in data) return more(link);
    if ("whole" in data) return wholeBranch(link);
    if ("matrix" in data) return matrix(data.matrix);
    if ("clearHits" in data) { document.getElementById("find-text").value = ""; return search(""); }
    if ("full" in data) return go(state.step, { path, full: "1" }, "replace");
    if ("path" in data) return go(state.step, "view" in data ? { path: data.path, view: data.view } : { path: data.path });
    if ("view" in data) return go(state.step, { path, view: data.view });
    return go(Number(data.step), "keep" in data ? { path } : {});
  }

  const WIRED = "[data-step], [data-check], [data-branch], [data-more], [data-whole], [data-matrix], [data-clear-hits], [data-full], [data-path], [data-view]";
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (!link || !link.matches(WIRED) || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    document.getElementById("check").close();
    Promise.resolve(follow(link)).catch(() => window.location.assign(link.href));
  });
  document.addEventListener("submit", (event) => {
    if (event.target.id === "finder") {
      event.preventDefault();
      search(document.getElementById("find-text").value.trim());
    } else if ("find" in event.target.dataset) {
      event.preventDefault();
      go(state.step, { view: "state", find: event.target.elements.find.value.trim() });
    }
  });
  document.addEventListener("change", (event) => {
    if (event.target.id === "only" || event.target.id === "tool") filter();
  });
  window.addEventListener("popstate", () => {
    const query = parameters();
    const changes = {};
    for (const name of PANEL) changes[name] = query.get(name);
    go(Math.min(Number(query.get("step") ?? 0) || 0, last), changes, "");
  });

  window.envarium.replay = { state, rows, rowOf, go, walk, search, parameters, append, refresh, get last() { return last; } };
  read();
  window.envarium.restoreFolds(document);
  mark(state.step);
  new ResizeObserver(() => { const row = rowOf.get(state.step); if (row) reveal(row.line); }).observe(list.parentElement);
  window.setTimeout(ahead, 100);
})();
