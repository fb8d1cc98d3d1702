/* The curves of a training job: fetched where they are seen, drawn again when the job says that there is more.

   The range of steps stands in the address; a zoom in one chart asks the server for the same steps of all of them,
   finer. A click on a point, or the step chooser, leads to that step's rollouts. */
"use strict";

(() => {
  const holder = () => document.getElementById("curves-data");
  if (!holder()) return;
  let told = JSON.parse(holder().textContent);
  const { keys, live } = window.envarium;
  const EVERY_MS = 1000;
  const AGAIN_MS = 5000;
  const AT_ONCE = 6; /* charts in one question: the first are drawn while the others are asked for */
  const SMALL = " small";
  const PATIENCE = 4; /* a slow answer is waited for so many times longer before the next question */
  const figures = new Map();
  const drawn = new Map();
  const seen = new Set();
  const stale = new Set();
  const range = { from: told.from, to: told.to };
  const problem = document.getElementById("curves-error");
  const chooser = document.getElementById("step");
  const small = new Map();
  const { along, curveControls } = window.envarium;
  const settings = curveControls(told.axis, redraw, () => { all(); update(); });
  let clock = null;
  let points = {};
  let marks = [];
  let last = Number(chooser?.max || 0);
  let chosen = null;
  let asking = false;

  function address(names) {
    const query = new URLSearchParams(told.query);
    for (const end of ["from", "to"]) if (range[end] !== null) query.set(end, range[end]);
    for (const name of names) query.append("chart", name);
    if (stale.has(SMALL)) query.set("small", "1");
    if (settings.axis !== "step") query.set("x", settings.axis);
    return `${told.url}?${query}`;
  }

  async function ask(names) {
    const answer = await fetch(address(names), { headers: { Accept: "application/json" } });
    if (answer.redirected) window.location.reload();
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    return answer.json();
  }

  function fail(error) {
    if (!problem) return;
    problem.textContent = `The curves could not be brought up to date (${error.message}). The curves may be outdated; the request is repeated.`;
    problem.hidden = false;
  }

  const words = (value) => envarium.written(value, 4);

  const timed = () => settings.axis !== "step" && clock;
  const place = (step) => (timed() ? along(clock.step, clock[settings.axis], step) : step);
  const stepAt = (x) => (timed() ? along(clock[settings.axis], clock.step, x) : x);

  function view() {
    const [low, high] = [range.from ?? 0, range.to ?? Math.max(last, 1)];
    const open = told.live && range.to === null && settings.axis === "step" && told.total > last;
    const room = high + Math.ceil((high - low) / 3); /* a young job's curve still has three quarters of the width */
    return {
      marks, chosen, place, smoothing: settings.smoothing, axis: timed() ? settings.axis : "step",
      low: place(low), high: place(high), end: open ? Math.min(told.total, room) : 0, toCome: open ? `${(told.total - last).toLocaleString("en-US")} steps to come` : "",
    };
  }

  function bind(box) {
    box.on("plotly_relayout", (event) => {
      const [low, high] = [event["xaxis.range[0]"], event["xaxis.range[1]"]];
      if (low !== undefined && high !== undefined) zoom(Math.max(0, Math.floor(stepAt(low))), Math.max(1, Math.ceil(stepAt(high))));
    });
    box.on("plotly_doubleclick", () => zoom(null, null));
    box.on("plotly_click", (event) => {
      const step = event.points.find((point) => Number.isInteger(point.customdata?.[0]))?.customdata[0];
      if (step !== undefined) window.location.assign(`${told.steps}${step}/`);
    });
  }

  function say(figure, lines) {
    const places = [...figure.querySelectorAll(".lasts dd")];
    if (places.length !== lines.length) return;
    lines.forEach((line, at) => {
      const place = line.y.findLastIndex((value) => value !== null);
      places[at].firstElementChild.textContent = line.last === null ? "no number" : words(line.last);
      places[at].title = place < 0 ? "" : `step ${line.x[place]}`;
    });
  }

  function drawSmall() {
    const now = { ...view(), end: 0 };
    for (const [key, figure] of small) {
      const line = points[key];
      window.envarium.drawSmall(figure, line ? [line] : [], now);
      if (line?.last !== undefined) figure.querySelector("figcaption b").textContent = line.last === null ? "no number" : words(line.last);
    }
  }

  async function draw(name) {
    const figure = figures.get(name);
    const lines = drawn.get(name);
    if (!figure || !lines || !window.Plotly) return;
    const box = figure.querySelector(".plot");
    const first = !box.classList.contains("js-plotly-plot");
    await window.envarium.drawCurve(box, told.charts[name], lines, view());
    if (first) bind(box);
  }

  /* One question at a time; what becomes stale meanwhile is asked for after it. What is not seen waits until it is. */
  async function update() {
    if (asking) return;
    asking = true;
    try {
      for (let names = wanted(); names.length || stale.has(SMALL); names = wanted()) await once(names.length ? names : ["-"]);
      if (problem) problem.hidden = true;
    } catch (error) {
      fail(error);
      window.setTimeout(update, AGAIN_MS);
    } finally {
      asking = false;
    }
  }

  const wanted = () => [...stale].filter((name) => seen.has(name)).slice(0, AT_ONCE);

  async function once(names) {
    const few = stale.has(SMALL);
    const question = ask(names);
    names.forEach((name) => stale.delete(name));
    stale.delete(SMALL);
    const [low, high, begun] = [range.from, range.to, Date.now()];
    try {
      const data = await question;
      changed.every = Math.max(EVERY_MS, PATIENCE * (Date.now() - begun));
      if (low !== range.from || high !== range.to) return;
      reach(data);
      if (data.shape !== told.shape) {
        await exchange();
        told.shape = data.shape;
        return;
      }
      clock = data.clock ?? clock;
      if (few) {
        points = data.small || {};
        drawSmall();
      }
      for (const name of names.filter((one) => figures.has(one))) {
        drawn.set(name, data.charts[name] || []);
        say(figures.get(name), drawn.get(name));
        await draw(name);
        await follow(name);
      }
      if (document.getElementById("marks").dataset.count !== String(marks.length)) await exchange(["marks"]);
      document.documentElement.dataset.curves = String(last);
    } catch (error) {
      names.filter((name) => figures.has(name)).forEach((name) => stale.add(name));
      if (few) stale.add(SMALL);
      throw error;
    }
  }

  /* How far the job is. Until a person chooses a step, the newest stands in the chooser. */
  function reach(data) {
    marks = data.marks;
    last = data.step;
    if (!chooser) return;
    chooser.max = String(last);
    document.getElementById("to").placeholder = String(last);
    if (chosen === null && chooser !== document.activeElement && chooser.value === chooser.defaultValue) {
      chooser.defaultValue = String(last);
      chooser.value = chooser.defaultValue;
    }
  }

  /* An open table has the same numbers as its curve. New rows come on top, so that what a person reads stays. */
  async function follow(name) {
    const twin = figures.get(name)?.querySelector("details.twin[open]");
    const table = twin?.querySelector("table");
    if (!table) return;
    const answer = await fetch(twin.getAttribute("hx-get"), { headers: { "HX-Request": "true" } });
    if (!answer.ok || answer.redirected) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("table");
    if (fresh) merge(table.tBodies[0], [...fresh.tBodies[0].rows]);
  }

  function merge(body, rows) {
    const step = (row) => Number(row.dataset.step);
    const newest = step(rows[0]);
    const known = new Map();
    for (const row of [...body.rows]) {
      if (step(row) > newest) row.remove();
      else known.set(step(row), row);
    }
    if (body.rows.length && step(rows.at(-1)) > step(body.rows[0])) body.replaceChildren();
    for (const row of rows.reverse()) {
      const old = known.get(step(row));
      if (!old?.isConnected) body.prepend(row);
      else if (old.innerHTML !== row.innerHTML && !old.contains(document.activeElement)) old.replaceWith(row);
    }
  }

  /* There are other charts, lines or marks than this page has: their places come as a reload would bring them. */
  async function exchange(ids = ["large", "small", "curves-choice", "charts"]) {
    const answer = await fetch(window.location.href);
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const open = [...document.querySelectorAll("#charts details[open] > summary, #large details[open] > summary")].map((one) => one.id);
    for (const id of ids) {
      const [old, fresh] = [document.getElementById(id), page.getElementById(id)];
      if (!old || !fresh || (id === "curves-choice" && inUse(old))) continue;
      const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
      old.replaceWith(fresh);
      window.htmx.process(fresh);
      if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
    }
    if (ids.includes("charts")) begin();
    for (const id of open) document.getElementById(id)?.parentElement.setAttribute("open", "");
  }

  function inUse(form) {
    const ticked = [...form.elements].some((one) => one.type === "checkbox" && one.checked !== one.defaultChecked);
    return ticked || form.contains(document.activeElement) || Boolean(form.querySelector("details[open]"));
  }

  /* What was drawn is drawn at once in its new place; all of it is asked for again. */
  function begin() {
    told = JSON.parse(holder().textContent);
    figures.forEach((figure) => { watch.unobserve(figure); window.Plotly.purge(figure.querySelector(".plot")); });
    figures.clear();
    seen.clear();
    for (const figure of document.querySelectorAll("[data-chart]")) {
      figures.set(figure.dataset.chart, figure);
      stale.add(figure.dataset.chart);
      figure.querySelector(".plot").hidden = false;
      draw(figure.dataset.chart);
      watch.observe(figure);
    }
    small.clear();
    document.querySelectorAll("[data-small]").forEach((figure) => small.set(figure.dataset.small, figure));
    if (small.size) stale.add(SMALL);
    update();
  }

  function all() {
    figures.forEach((_, name) => stale.add(name));
    if (small.size) stale.add(SMALL);
  }

  async function changed() {
    if (!figures.size) {
      if ((await ask(["-"])).shape !== told.shape) window.location.reload();
      return;
    }
    all();
    await update();
  }

  function zoom(from, to) {
    range.from = from;
    range.to = to;
    const here = new URL(window.location.href);
    for (const end of ["from", "to"]) {
      if (range[end] === null) here.searchParams.delete(end);
      else here.searchParams.set(end, range[end]);
      const field = document.getElementById(end);
      if (field) field.value = range[end] ?? "";
    }
    window.history.replaceState(null, "", here);
    all();
    return update();
  }

  /* The value of a line at a step, from the bucket that the step lies in. */
  function at(line, step) {
    const place = line.x.findIndex((end, index) => step <= end && step >= (line.first ? line.first[index] : end));
    return place < 0 ? null : line.y[place];
  }

  function redraw() {
    seen.forEach((name) => draw(name));
    drawSmall();
  }

  function choose(step) {
    chosen = Math.min(Math.max(0, step), last);
    chooser.value = String(chosen);
    const said = [];
    for (const name of seen) {
      for (const line of drawn.get(name) || []) {
        const value = at(line, chosen);
        if (value !== null && said.length < 4) said.push(`${told.charts[name].title}, ${line.label}: ${words(value)}`);
      }
      draw(name);
    }
    drawSmall();
    document.getElementById("at-step").textContent = `Step ${chosen}. ${said.join("; ") || "No numbers of it are drawn."}`;
  }

  if (chooser) {
    const move = (by) => choose((chosen ?? Number(chooser.value)) + by);
    document.getElementById("step-earlier").addEventListener("click", () => move(-1));
    document.getElementById("step-later").addEventListener("click", () => move(1));
    chooser.addEventListener("change", () => { if (chooser.value !== "") choose(Number(chooser.value)); });
    keys.add({ key: "[", does: "Step before", group: "Curves", repeat: true, run: () => move(-1) });
    keys.add({ key: "]", does: "Next step", group: "Curves", repeat: true, run: () => move(1) });
    keys.add({ key: "0", does: "The whole run", group: "Curves", run: () => zoom(null, null) });
  }

  if (document.querySelector("[data-chart]") && !window.Plotly) {
    problem.textContent = "The drawing could not be loaded. The tables have the same numbers.";
    problem.hidden = false;
    return;
  }
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const name = entry.target.dataset.chart;
      if (entry.isIntersecting) seen.add(name);
      else if (figures.get(name) === entry.target) seen.delete(name);
    }
    update();
  }, { rootMargin: "300px" });
  begin();
  const again = () => redraw();
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  new MutationObserver(again).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  changed.every = EVERY_MS;
  if (told.live) live.on(told.topic, changed);
})();
