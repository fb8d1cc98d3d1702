/* Live updates: one stream a browser, whichever tab holds it; polling where there can be none.

   const stop = envarium.live.on("trajectory:5", () => {…});   called when it may have changed, at most every 300 ms
   In HTML: data-live="job:7" data-live-url="/…/live/" on a part that is fetched again and exchanged; with
   data-live-every="1500" no more often than that.

   The tab that holds the lock "envarium.live" opens the stream for the topics of all tabs and tells them. A tab that
   hears nothing for a while, or whose browser has no locks, helps itself. */
"use strict";

(() => {
  const envarium = (window.envarium = window.envarium || {});
  document.documentElement.classList.add("js");
  const POLL_MS = 2000;
  const AGAIN_MS = 15000;
  const SILENT_MS = 40000;
  const HELLO_MS = 6000;
  const GATHER_MS = 300;
  const me = `${Date.now()}-${Math.random()}`;
  const shared = "locks" in navigator && "BroadcastChannel" in window;
  const channel = shared ? new BroadcastChannel("envarium.live") : null;
  const listeners = new Map();
  const others = new Map();
  const due = new Map();
  let source = null;
  let opened = "";
  let last = "";
  let leading = !shared;
  let asked = false;
  let heard = Date.now();
  let timer = 0;
  let again = 0;
  let greeting = 0;

  const mine = () => [...listeners.keys()];
  const wanted = () => [...new Set([...mine(), ...[...others.values()].flat()])].sort().slice(0, 60);
  const tell = (message) => channel && channel.postMessage({ from: me, ...message });

  function mode(name) { document.documentElement.dataset.live = name; }

  /* A burst of changes is one call; the first comes at once. */
  function changed(topic) {
    for (const one of listeners.get(topic) || []) {
      if (due.has(one)) { due.set(one, true); continue; }
      due.set(one, false);
      run(one);
    }
  }

  async function run(one) {
    try { await one(); } catch { /* the next change asks again */ }
    window.setTimeout(() => {
      const more = due.get(one);
      due.delete(one);
      if (more) { due.set(one, false); run(one); }
    }, one.every || GATHER_MS);
  }

  function all() { for (const topic of mine()) changed(topic); }

  function poll(on) {
    if (on && !timer) timer = window.setInterval(all, POLL_MS);
    if (!on && timer) { window.clearInterval(timer); timer = 0; }
    if (listeners.size) mode(on ? "poll" : "stream");
  }

  function news(message) {
    heard = Date.now();
    if (message.kind === "change") changed(message.topic);
    else if (message.kind === "lost") poll(true);
    else { poll(false); all(); }
  }

  function share(message) { news(message); tell(message); }

  /* A proxy that holds the stream back, or a connection that died unnoticed, says nothing at all. */
  function mute() { if (source) source.close(); lost(); }

  function lost() {
    window.clearTimeout(greeting);
    share({ kind: "lost" });
    window.clearTimeout(again);
    again = window.setTimeout(() => { opened = ""; open(); }, AGAIN_MS);
  }

  function open() {
    if (!leading) return;
    const topics = wanted();
    if (topics.join() === opened) return;
    if (source) source.close();
    window.clearTimeout(greeting);
    source = null;
    opened = topics.join();
    if (!topics.length) return;
    const query = new URLSearchParams(topics.map((topic) => ["topic", topic]));
    if (last) query.set("after", last);
    source = new EventSource(`/events/?${query}`);
    greeting = window.setTimeout(mute, HELLO_MS);
    const on = (name, act) => source.addEventListener(name, (event) => {
      window.clearTimeout(greeting);
      last = event.lastEventId || last;
      act(event);
    });
    on("hello", () => share({ kind: "hello" }));
    on("reset", () => share({ kind: "hello" }));
    on("beat", () => share({ kind: "hello" }));
    on("change", (event) => share({ kind: "change", topic: event.data }));
    on("end", () => { source.close(); window.location.reload(); });
    on("busy", () => { source.close(); lost(); });
    source.addEventListener("error", () => {
      if (source && source.readyState === EventSource.CLOSED) lost();
      else share({ kind: "lost" });
    });
  }

  let gathering = 0;
  function reopen() {
    window.clearTimeout(gathering);
    gathering = window.setTimeout(open, 50);
  }

  function announce() {
    tell({ kind: "want", topics: mine() });
    if (leading) reopen();
    else if (!asked && listeners.size) {
      asked = true;
      navigator.locks.request("envarium.live", () => new Promise(() => { leading = true; tell({ kind: "who" }); reopen(); }));
    }
  }

  if (channel) {
    channel.addEventListener("message", ({ data }) => {
      if (data.kind === "who") tell({ kind: "want", topics: mine() });
      else if (data.kind === "want") { others.set(data.from, data.topics); if (leading) reopen(); }
      else if (data.kind === "bye") { others.delete(data.from); if (leading) reopen(); }
      else if (!leading) news(data);
    });
    window.addEventListener("pagehide", () => tell({ kind: "bye" }));
  }
  /* A page that Back brings out of the browser's memory has missed what was told since: its stream is opened again. */
  window.addEventListener("pageshow", (event) => {
    if (!event.persisted) return;
    opened = "";
    announce();
    all();
  });
  window.setInterval(() => {
    if (!listeners.size || Date.now() - heard <= SILENT_MS) return;
    if (leading) mute();
    else poll(true);
  }, 5000);

  function on(topic, call) {
    if (!listeners.has(topic)) listeners.set(topic, new Set());
    listeners.get(topic).add(call);
    heard = Date.now();
    announce();
    return () => {
      listeners.get(topic)?.delete(call);
      if (listeners.get(topic)?.size === 0) listeners.delete(topic);
      if (!listeners.size) poll(false);
      announce();
    };
  }

  /* Parts of pages. What took a part's place is asked for by the same call, which so keeps its pace. */
  const parts = new Map();
  const looks = new Map();
  function look(url, every) {
    if (!looks.has(url)) {
      looks.set(url, async () => {
        const here = document.querySelector(`[data-live][data-live-url="${CSS.escape(url)}"]`);
        if (here) await window.htmx.ajax("GET", url, { target: here, swap: "outerHTML" });
      });
    }
    return Object.assign(looks.get(url), { every: Number(every) || GATHER_MS });
  }
  function scan() {
    for (const [part, stop] of parts) if (!part.isConnected) { stop(); parts.delete(part); }
    for (const part of document.querySelectorAll("[data-live][data-live-url]")) {
      if (!parts.has(part)) parts.set(part, on(part.dataset.live, look(part.dataset.liveUrl, part.dataset.liveEvery)));
    }
  }
  document.addEventListener("htmx:afterSettle", scan);
  document.addEventListener("DOMContentLoaded", scan);
  envarium.live = { on, scan };
})();
