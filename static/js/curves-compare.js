/* Curves of several jobs over each other. The range of steps stands in the address, as on a job's own page. */
"use strict";

(() => {
  const holder = document.getElementById("compare-data");
  if (!holder) return;
  const told = JSON.parse(holder.textContent);
  const box = document.getElementById("compared");
  const problem = document.getElementById("curves-error");
  const here = new URL(window.location.href).searchParams;
  const number = (name) => (/^\d{1,9}$/.test(here.get(name) || "") ? Number(here.get(name)) : null);
  const range = { from: number("from"), to: number("to") };
  if (range.to !== null && range.from > range.to) [range.from, range.to] = [range.to, range.from];
  const { along, curveControls, drawCurve, drawSmall } = window.envarium;
  const settings = curveControls(told.axis, draw, load);
  let data = null;

  function view() {
    const clocks = settings.axis === "step" ? null : data.clocks;
    const place = (step, line) => (clocks && line.arm !== undefined ? along(clocks[line.arm].step, clocks[line.arm][settings.axis], step) : step);
    const low = range.from ?? 0;
    const high = range.to ?? Math.max(data.step, 1);
    const ends = data.large.map((line) => place(high, line));
    const begins = data.large.map((line) => place(low, line));
    return {
      marks: [], chosen: null, smoothing: settings.smoothing, place, axis: clocks ? settings.axis : "step", end: 0,
      low: clocks ? Math.min(...begins) : low, high: clocks ? Math.max(...ends, 1e-6) : high,
    };
  }

  async function draw() {
    if (!data || !window.Plotly) return;
    const first = !box.classList.contains("js-plotly-plot");
    await drawCurve(box, { title: told.title, unit: "", stacked: false, share: false, large: true, toLines: true }, data.large, view());
    if (first) bind();
    for (const figure of document.querySelectorAll("[data-small]")) {
      drawSmall(figure, data.small[figure.dataset.small] || [], view());
    }
    document.documentElement.dataset.compared = settings.axis;
  }

  function bind() {
    box.on("plotly_relayout", (event) => {
      const [low, high] = [event["xaxis.range[0]"], event["xaxis.range[1]"]];
      if (low === undefined || high === undefined || settings.axis !== "step") return;
      zoom(Math.max(0, Math.floor(low)), Math.max(1, Math.ceil(high)));
    });
    box.on("plotly_doubleclick", () => zoom(null, null));
  }

  function zoom(from, to) {
    Object.assign(range, { from, to });
    const address = new URL(window.location.href);
    for (const end of ["from", "to"]) {
      if (range[end] === null) address.searchParams.delete(end);
      else address.searchParams.set(end, range[end]);
    }
    window.history.replaceState(null, "", address);
    load();
  }

  async function load() {
    const query = new URLSearchParams(told.query);
    for (const end of ["from", "to"]) if (range[end] !== null) query.set(end, range[end]);
    if (settings.axis !== "step") query.set("x", settings.axis);
    try {
      const answer = await fetch(`${told.url}?${query}`, { headers: { Accept: "application/json" } });
      if (answer.redirected) window.location.reload();
      if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
      data = await answer.json();
      problem.hidden = true;
      await draw();
    } catch (error) {
      problem.textContent = `The curves could not be loaded (${error.message}). Reload the page.`;
      problem.hidden = false;
    }
  }

  window.envarium.keys.add({ key: "0", does: "The whole run", group: "Curves", run: () => zoom(null, null) });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  new MutationObserver(draw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  load();
})();
