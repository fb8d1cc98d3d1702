/* Draws one chart of a training job with plotly, in the page's own colours. Lines differ by dash and marker too.

   envarium.drawCurve(box, chart, lines, {marks, low, high, chosen})
   Labels come without markup from the server, but for line breaks; nothing else of the data is text. Plotly reads
   markup in every text, links among it, so that whatever else looks like markup is taken out once more here. */
"use strict";

(() => {
  const envarium = (window.envarium = window.envarium || {});
  const TOKENS = ["--accent", "--bad", "--good", "--warn", "--code-word", "--muted"];
  const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "x", "cross", "star", "pentagon", "hexagon", "triangle-down", "bowtie", "hourglass"];
  const PATTERNS = ["", "/", ".", "x", "\\", "-", "+", "|"];
  const MARK_DASHES = { horizon: "dash", checkpoint: "dot", attempt: "solid", doubt: "dashdot" };
  const FEW = 60;
  const MOST_MARKS = 80;
  const WORD_SHARE = 0.18; /* of the axis, for what is said of a mark */
  const coarse = window.matchMedia("(pointer: coarse)");

  /* light-dark() is only known to the browser once it is used. */
  function colour(token) {
    const probe = document.createElement("span");
    probe.style.color = `var(${token})`;
    document.body.append(probe);
    const found = window.getComputedStyle(probe).color;
    probe.remove();
    return found;
  }

  const plain = (text) => String(text).replaceAll(/<(?!br>)/g, "\u2039");
  const faint = (rgb, alpha) => rgb.replace("rgb(", "rgba(").replace(")", `, ${alpha})`);

  function band(line, low, high, tone, alpha, words) {
    const edge = { type: "scatter", mode: "lines", x: line.x, line: { width: 0, color: tone }, hoverinfo: "skip", connectgaps: false };
    return [
      { ...edge, y: low, showlegend: false },
      { ...edge, y: high, fill: "tonexty", fillcolor: faint(tone, alpha), name: plain(words), showlegend: Boolean(words), legendrank: 2000 },
    ];
  }

  /* How many steps a point stands for. */
  const width = (line) => Math.max(1, ...line.x.map((end, place) => end - line.first[place] + 1));

  function bands(line, tone, alone, crowded) {
    const found = [];
    if (line.spread) {
      const at = (sign) => line.y.map((value, place) => (value === null || line.spread[place] === null ? null : value + sign * line.spread[place]));
      found.push(...band(line, at(-1), at(1), tone, 0.13, alone ? "± deviation" : ""));
    }
    if (line.low && !line.rare && !crowded) found.push(...band(line, line.low, line.high, tone, 0.28, alone ? `least to greatest of ${width(line)} steps` : ""));
    return found;
  }

  function trace(line, place, chart, tones) {
    const tone = tones[place % tones.length];
    const dash = DASHES[(place + Math.floor(place / tones.length)) % DASHES.length];
    const few = line.rare || line.x.length <= FEW;
    const told = {
      type: "scatter",
      name: plain(line.label),
      x: line.x,
      y: line.y,
      mode: few ? "lines+markers" : "lines",
      line: { color: tone, width: 1.75, dash },
      marker: { color: tone, size: line.rare ? 7 : 5, symbol: SYMBOLS[place % SYMBOLS.length] },
      connectgaps: Boolean(line.rare),
      hovertemplate: "%{y:.4~g}",
    };
    if (!chart.stacked) return told;
    return { ...told, mode: "lines", stackgroup: "all", fillcolor: faint(tone, 0.35), fillpattern: { shape: PATTERNS[place % PATTERNS.length], fgcolor: tone, fgopacity: 0.7, size: 6, solidity: 0.25 } };
  }

  function shapes(view, ink, soft) {
    const kept = view.marks.length <= MOST_MARKS ? view.marks : view.marks.filter((mark) => mark.kind !== "checkpoint").slice(-MOST_MARKS);
    const upright = { type: "line", yref: "paper", y0: 0, y1: 1, layer: "below" };
    const found = kept.map((mark) => ({ ...upright, x0: mark.step, x1: mark.step, line: { color: mark.kind === "doubt" ? colour("--bad") : soft, width: ["attempt", "doubt"].includes(mark.kind) ? 2 : 1, dash: MARK_DASHES[mark.kind] } }));
    if (view.chosen !== null) found.push({ ...upright, layer: "above", x0: view.chosen, x1: view.chosen, line: { color: ink, width: 1 } });
    return found;
  }

  /* Over the plot, where they cover no line; one that would stand on another is in the tables alone. */
  function words(view, ink) {
    const room = (view.high - view.low) * WORD_SHARE;
    const found = [];
    let free = -Infinity;
    for (const mark of view.marks.filter((one) => one.short)) {
      const leftwards = mark.step + room > view.high;
      const begin = leftwards ? mark.step - room : mark.step;
      if (begin < free) continue;
      free = begin + room;
      found.push({ x: mark.step, y: 1, yref: "paper", xanchor: leftwards ? "right" : "left", yanchor: "bottom", text: plain(mark.short), showarrow: false, font: { size: 10, color: ink } });
    }
    return found;
  }

  /* Of a line that never changes plotly would show a range of two around it. */
  function flat(lines) {
    const values = new Set(lines.flatMap((line) => [...line.y, ...(line.spread || []), ...(line.low || []), ...(line.high || [])]).filter((value) => value !== null));
    if (values.size !== 1) return undefined;
    const [only] = values;
    return only === 0 ? [-0.05, 1] : only > 0 ? [0, 2 * only] : [2 * only, 0];
  }

  function nothing(lines, ink) {
    if (lines.some((line) => line.y.some((value) => value !== null))) return [];
    return [{ x: 0.5, y: 0.5, xref: "paper", yref: "paper", text: "No numbers in these steps", showarrow: false, font: { size: 12, color: ink } }];
  }

  /* Room for the legend, about: plotly would make it a box to scroll in. */
  function legendHeight(traces, across) {
    const named = traces.filter((one) => one.showlegend !== false).map((one) => one.name.split("<br>"));
    const widest = Math.max(1, ...named.flat().map((text) => text.length));
    const columns = Math.max(1, Math.floor((across - 64) / (widest * 6 + 56)));
    const deepest = Math.max(1, ...named.map((parts) => parts.length));
    return Math.ceil(named.length / columns) * (6 + 14 * deepest);
  }

  function layout(chart, lines, view, ink, soft, legend) {
    const range = chart.stacked ? [0, 1] : flat(lines);
    const over = words(view, soft);
    const axis = { gridcolor: colour("--line"), zerolinecolor: colour("--line"), linecolor: colour("--control"), tickfont: { size: 11, color: soft }, automargin: true };
    const wide = Math.max(1, view.high - view.low) * 0.02;
    const named = lines.length > 1 || lines.some((line) => line.spread || (line.low && !line.rare));
    return {
      height: named ? 190 + legend : 220,
      margin: { t: over.length ? 20 : 8, l: 44, r: 24, b: 28 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: window.getComputedStyle(document.body).fontFamily, color: ink, size: 12 },
      hovermode: "x unified",
      hoverlabel: { bgcolor: colour("--raised"), bordercolor: colour("--control"), font: { color: ink, size: 12 } },
      dragmode: coarse.matches ? false : "zoom",
      showlegend: named,
      legend: { orientation: "h", traceorder: "normal", x: 0, y: -0.2, yanchor: "top", font: { size: 11, color: ink }, itemwidth: 40, maxheight: 2000 },
      xaxis: { ...axis, range: [view.low - wide, view.high + wide], hoverformat: ",d", tickformat: ",~d", ...(view.high - view.low < 6 ? { dtick: 1 } : { nticks: 6 }) },
      yaxis: { ...axis, fixedrange: true, rangemode: chart.share ? "tozero" : "normal", range, autorange: range === undefined, nticks: 6, exponentformat: "e" },
      shapes: shapes(view, ink, soft),
      annotations: [...over, ...nothing(lines, soft)],
    };
  }

  envarium.drawCurve = (box, chart, lines, view) => {
    const tones = TOKENS.map(colour);
    const ink = colour("--text");
    const soft = colour("--muted");
    const under = chart.stacked ? [] : lines.flatMap((line, place) => bands(line, tones[place % tones.length], place === 0 && lines.length < 3, lines.length > 3));
    const traces = [...under, ...lines.map((line, place) => trace(line, place, chart, tones))];
    return window.Plotly.react(box, traces, layout(chart, lines, view, ink, soft, legendHeight(traces, box.clientWidth)), { displayModeBar: false, responsive: true, doubleClick: false });
  };
})();
