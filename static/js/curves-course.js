/* The course of one task over a training job: its reward by step. A click on a point opens the step's attempts. */
"use strict";

(() => {
  const told = JSON.parse(document.getElementById("course-data").textContent);
  const box = document.getElementById("course");
  const view = { marks: [], chosen: null, smoothing: 0, axis: "step", place: (step) => step, low: 0, high: Math.max(told.last, 1), end: 0 };
  const chart = { title: "Reward", unit: "", stacked: false, share: true, large: true };

  async function draw() {
    if (!window.Plotly) return;
    const first = !box.classList.contains("js-plotly-plot");
    await window.envarium.drawCurve(box, chart, [told.line], view);
    if (!first) return;
    box.on("plotly_click", (event) => {
      const step = event.points.find((point) => Number.isInteger(point.customdata?.[0]))?.customdata[0];
      const link = document.querySelector(`[data-row-link][data-step="${step}"]`);
      if (link) window.location.assign(link.href);
    });
  }

  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  new MutationObserver(draw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  draw();
})();
