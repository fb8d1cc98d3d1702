/* Draws bars by day with plotly, in the page's own colours and patterns: attempts by outcome, and cost.

   <div data-over-time="ID"> with the numbers in <script id="ID" type="application/json">; a table beside says the same. */
"use strict";

(() => {
  const TONES = ["--good", "--bad", "--warn", "--accent", "--code-word", "--muted", "--control"];
  /* An outcome has the same colour and pattern on each page, whichever others there are. */
  const OUTCOMES = ["solved", "failed", "truncated", "agent error", "program error", "infra error", "cancelled"];
  const PATTERNS = ["", "/", "x", ".", "\\", "-", "+", "|"];
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const boxes = [...document.querySelectorAll("[data-over-time]")];

  /* light-dark() is only known to the browser once it is used. */
  function colour(token) {
    const probe = document.createElement("span");
    probe.style.color = `var(${token})`;
    document.body.append(probe);
    const found = window.getComputedStyle(probe).color;
    probe.remove();
    return found;
  }

  /* Two weeks at least: one day's bar as wide as the page says nothing of time. */
  const DAY = 24 * 60 * 60 * 1000;
  const LEAST_DAYS = 14;
  function span(days) {
    const last = Date.parse(days[days.length - 1]);
    const first = Math.min(Date.parse(days[0]), last - (LEAST_DAYS - 1) * DAY);
    return [first - DAY / 2, last + DAY / 2].map((at) => new Date(at).toISOString().slice(0, 19));
  }

  const plain = (text) => String(text).replaceAll("<", "\u2039");

  function trace(data, at, surface) {
    const only = data.names.length === 1;
    const known = OUTCOMES.indexOf(data.names[at]);
    const look = known < 0 ? at : known;
    const tone = colour(only ? "--accent" : TONES[look % TONES.length]);
    return {
      type: "bar",
      name: plain(data.names[at]),
      x: data.days,
      y: data.series[at],
      width: 0.85 * DAY,
      marker: {
        color: tone,
        line: { color: surface, width: 1 },
        pattern: { shape: only ? "" : PATTERNS[look % PATTERNS.length], bgcolor: tone, fgcolor: surface, size: 7, solidity: 0.2 },
      },
      hovertemplate: `%{x|%Y-%m-%d}: %{y:,} ${plain(data.names[at])}<extra></extra>`,
    };
  }

  function draw(box) {
    const data = JSON.parse(document.getElementById(box.dataset.overTime).textContent);
    const text = colour("--text");
    const muted = colour("--muted");
    const surface = colour("--surface");
    const grid = colour("--line");
    const axis = { color: muted, gridcolor: grid, zerolinecolor: grid, fixedrange: true, automargin: true };
    const layout = {
      barmode: "stack",
      height: 240,
      margin: { t: 8, l: 8, r: 8, b: 8 },
      paper_bgcolor: surface,
      plot_bgcolor: surface,
      font: { family: window.getComputedStyle(document.body).fontFamily, color: text, size: 12 },
      xaxis: { ...axis, type: "date", tickformat: "%d %b", tickangle: 0, nticks: Math.max(2, Math.min(8, Math.floor(box.clientWidth / 80))), showgrid: false, range: span(data.days) },
      yaxis: { ...axis, rangemode: "tozero", tickformat: ",", title: { text: plain(data.axis), font: { size: 11 } } },
      showlegend: data.names.length > 1,
      legend: { orientation: "h", y: -0.2, font: { color: text } },
      hoverlabel: { bgcolor: colour("--raised"), bordercolor: colour("--control"), font: { color: text } },
    };
    const traces = data.names.map((_, at) => trace(data, at, surface));
    const drawn = window.Plotly.react(box, traces, layout, { displayModeBar: false, responsive: true });
    if (data.links && !box.dataset.linked) {
      box.dataset.linked = "";
      box.on("plotly_click", ({ points: [{ curveNumber, pointNumber }] }) => {
        const url = data.links[curveNumber][pointNumber];
        if (url) window.location.assign(url);
      });
    }
    return drawn;
  }

  function all() { boxes.forEach(draw); }

  if (!window.Plotly) {
    for (const box of boxes) box.textContent = "The drawing could not be loaded. The table has the same numbers.";
    return;
  }
  all();
  dark.addEventListener("change", all);
})();
