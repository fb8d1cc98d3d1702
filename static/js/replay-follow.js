/* Following a run that is being made: new steps join the list, “follow” stays at the newest, “pause” counts what is new.
   When it has ended, outcome, checks and marks are exchanged in place. */
"use strict";

(() => {
  const bar = document.getElementById("follow");
  if (!bar) return;
  const replay = window.envarium.replay;
  const desk = document.getElementById("desk");
  const button = document.getElementById("pause");
  const box = document.getElementById("news");
  const topic = bar.dataset.liveTopic;
  let live = bar.dataset.following === "1";
  let version = desk ? desk.dataset.version : "";
  let known = replay ? replay.last + 1 : 0;
  let seen = known;
  let following = live && (!new URLSearchParams(window.location.search).has("step") || replay?.state.step === replay?.last);
  let own = false; /* whether following goes to a step by itself; any other step is a person's choice */
  if (!live && (!desk || document.querySelector("#checks .fold-checks"))) return; // nothing more will come

  function show() {
    if (!button) return;
    const fresh = known - seen;
    button.setAttribute("aria-pressed", String(!following));
    button.firstChild.textContent = following ? "Pause " : fresh ? `Follow (${fresh} new) ` : "Follow ";
    box.textContent = following ? "" : fresh ? `Paused. ${fresh} new step${fresh === 1 ? "" : "s"}.` : "Paused.";
  }

  async function newest() {
    seen = known;
    show();
    if (!replay || replay.state.step === replay.last) return;
    own = true;
    const going = replay.go(replay.last, {}, "replace");
    own = false;
    await going;
  }

  function toggle() {
    following = !following;
    if (following) newest();
    else { seen = known; show(); }
  }

  async function get(url) {
    const response = await fetch(url, { headers: { "X-Requested-With": "fetch" } });
    if (response.redirected) { window.location.reload(); throw new Error("signed out"); }
    if (!response.ok) throw new Error(String(response.status));
    return response;
  }

  async function look() {
    const query = new URLSearchParams(window.location.search);
    query.set("from", known);
    const found = await (await get(`${bar.dataset.news}?${query}`)).json();
    if (String(found.starts) !== bar.dataset.starts || found.steps < known || (!replay && found.steps)) { window.location.reload(); return; }
    if (found.steps > known) {
      replay.append(found.lines, found.steps - 1, found.version);
      known = found.steps;
    }
    if (following) await newest(); else show();
    if (!found.live && found.version !== version) await ended(found);
    version = found.version;
    live = found.live;
  }

  /* The page as it is now, in the places that are not the step itself. */
  async function ended(found) {
    const html = await (await get(window.location.href)).text();
    const page = new DOMParser().parseFromString(html, "text/html");
    for (const where of ["header.head", "#checks", "#follow"]) {
      const next = page.querySelector(where);
      const old = document.querySelector(where);
      if (next && old) { if (where === "#follow") { old.innerHTML = next.innerHTML; } else old.replaceChildren(...next.childNodes); }
    }
    const list = page.getElementById("steps");
    if (list && replay) replay.refresh(list.innerHTML, found.version);
    const outcome = page.querySelector("header.head .tag");
    document.getElementById("said").textContent = `The attempt has ended: ${outcome ? outcome.textContent.trim() : ""}`;
  }

  button?.addEventListener("click", toggle);
  desk?.addEventListener("replay:going", (event) => {
    if (!live || own || !following || event.detail.step === replay.last) return;
    following = false;
    seen = known;
    show();
  });
  show();
  window.envarium.live.on(topic, look);
  if (following && replay) newest();
})();
