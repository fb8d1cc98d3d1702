/* Draws one chart of a training job with plotly, in the page's own colours. Lines differ by dash and marker too.

   envarium.drawCurve(box, chart, lines, {marks, low, high, chosen, smoothing, axis, place, end})
   low, high and end are on the axis; place(step, line) says where a step lies on it. A large chart has its last numbers
   at its lines, and some room for the steps that are to come (up to end), with how many.
   Labels come without markup from the server, but for line breaks; nothing else of the data is text. Plotly reads
   markup in every text, links among it, so that whatever else looks like markup is taken out once more here. */
"use strict";

(() => {
  const envarium = (window.envarium = window.envarium || {});
  const TOKENS = ["--accent", "--bad", "--good", "--warn", "--code-word", "--muted"];
  const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "x", "cross", "star", "pentagon", "hexagon", "triangle-down", "bowtie", "hourglass"];
  const PATTERNS = ["", "/", ".", "x", "\\", "-", "+", "|"];
  const MARK_DASHES = { horizon: "dash", checkpoint: "dot", attempt: "solid", alert: "solid", doubt: "dashdot" };
  const FEW = 60;
  const MOST_MARKS = 80;
  const TALL = 230; /* pixels of a large chart's lines, at least */
  const APART = 14; /* pixels between the figures at the ends of two lines */
  const WORD_SHARE = 0.36; /* of an axis of 400 px, for what is said of a mark */
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
    const edge = { type: "scatter", mode: "lines", x: line.at, line: { width: 0, color: tone }, hoverinfo: "skip", connectgaps: false };
    return [
      { ...edge, y: low, showlegend: false },
      { ...edge, y: high, fill: "tonexty", fillcolor: faint(tone, alpha), name: plain(words), showlegend: Boolean(words), legendrank: 2000 },
    ];
  }

  /* How many steps a point stands for. */
  const width = (line) => Math.max(1, ...line.x.map((end, place) => end - line.first[place] + 1));

  function bands(line, tone, alone, crowded, first) {
    const found = [];
    if (line.spread) {
      const at = (sign) => line.y.map((value, place) => (value === null || line.spread[place] === null ? null : value + sign * line.spread[place]));
      found.push(...band(line, at(-1), at(1), tone, 0.13, alone ? "± deviation" : ""));
    }
    if (line.low && (line.band || !line.rare) && !crowded) found.push(...band(line, line.low, line.high, tone, line.band ? 0.2 : 0.28, line.band ? (first ? line.band : "") : alone ? `least to greatest of ${width(line)} steps` : ""));
    return found;
  }

  /* What was recorded, faint behind the smoothed line. */
  function recorded(line, place, chart, tones, view) {
    if (!view.smoothing || chart.stacked || line.rare) return [];
    const tone = tones[place % tones.length];
    return [{ type: "scatter", mode: "lines", x: line.at, y: line.y, line: { color: faint(tone, 0.35), width: 1 }, hoverinfo: "skip", showlegend: false, connectgaps: false }];
  }

  /* Points of which no attempt was executed again on the site: rings on the line. */
  function unverified(line, place, chart, tones, view) {
    if (!line.open || chart.stacked) return [];
    const ys = view.smoothing && !line.rare ? envarium.smooth(line.y, view.smoothing) : line.y;
    const kept = line.at.map((at, spot) => [at, ys[spot], line.open[spot]]).filter(([, value, open]) => open && value !== null);
    const marker = { color: tones[place % tones.length], size: 8, symbol: "circle-open", line: { width: 1.5 } };
    return [{ type: "scatter", mode: "markers", name: "not verified", x: kept.map(([at]) => at), y: kept.map(([, value]) => value), marker, hoverinfo: "skip", showlegend: false }];
  }

  const AXES = { time: "time", tokens: "tokens" };

  function hover(line, view, smoothed) {
    const step = AXES[view.axis] ? ", step %{customdata[0]:,d}" : "";
    return `%{y:.4~g}${smoothed ? " (recorded %{customdata[1]:.4~g})" : ""}${step}`;
  }

  function trace(line, place, chart, tones, view) {
    const tone = tones[place % tones.length];
    const dash = DASHES[(place + Math.floor(place / tones.length)) % DASHES.length];
    const few = line.rare || line.x.length <= FEW;
    const smoothed = Boolean(view.smoothing) && !chart.stacked && !line.rare;
    const lone = line.y.filter((value) => value !== null).length === 1;
    const full = line.open ? line.x.map((_, at) => (line.open[at] ? faint(tone, 0) : tone)) : tone;
    const told = {
      type: "scatter",
      name: plain(line.label),
      x: line.at,
      y: smoothed ? envarium.smooth(line.y, view.smoothing) : line.y,
      customdata: line.x.map((step, at) => [step, line.y[at]]),
      mode: lone || (few && !smoothed) ? "lines+markers" : "lines",
      line: { color: tone, width: chart.large ? 2.25 : 1.75, dash },
      marker: { color: full, size: line.rare || lone ? 7 : 5, symbol: SYMBOLS[place % SYMBOLS.length] },
      connectgaps: Boolean(line.rare),
      hovertemplate: hover(line, view, smoothed),
    };
    if (!chart.stacked) return told;
    return { ...told, mode: lone ? "lines+markers" : "lines", stackgroup: "all", fillcolor: faint(tone, 0.35), fillpattern: { shape: PATTERNS[place % PATTERNS.length], fgcolor: tone, fgopacity: 0.7, size: 6, solidity: 0.25 } };
  }

  function shapes(view, ink, soft) {
    const kept = view.marks.length <= MOST_MARKS ? view.marks : view.marks.filter((mark) => mark.kind !== "checkpoint").slice(-MOST_MARKS);
    const upright = { type: "line", yref: "paper", y0: 0, y1: 1, layer: "below" };
    const tones = { doubt: colour("--bad"), alert: colour("--warn") };
    const found = kept.map((mark) => {
      const x = view.place(mark.step, {});
      return { ...upright, x0: x, x1: x, line: { color: tones[mark.kind] || soft, width: ["attempt", "doubt", "alert"].includes(mark.kind) ? 2 : 1, dash: MARK_DASHES[mark.kind] } };
    });
    if (view.chosen !== null) found.push({ ...upright, layer: "above", x0: view.place(view.chosen, {}), x1: view.place(view.chosen, {}), line: { color: ink, width: 1 } });
    if (view.end > view.high) found.push({ ...upright, type: "rect", x0: view.high, x1: view.end, fillcolor: colour("--sunk"), line: { width: 0 } });
    return found;
  }

  /* Over the plot, where they cover no line; one that would stand on another is in the tables alone. */
  function words(chart, view, ink) {
    const end = Math.max(view.end || 0, view.high);
    const room = (end - view.low) * Math.min(0.5, WORD_SHARE * (400 / Math.max(view.across, 200)));
    const found = [];
    let free = -Infinity;
    for (const mark of view.marks.filter((one) => one.short)) {
      const x = view.place(mark.step, {});
      const leftwards = x + room > end;
      const begin = leftwards ? x - room : x;
      if (begin < free) continue;
      free = begin + room;
      found.push({ x, y: 1, yref: "paper", xanchor: leftwards ? "right" : "left", yanchor: "bottom", text: plain(mark.short), showarrow: false, font: { size: 10, color: ink } });
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

  /* Bands far wider than all lines (an interval over two seeds) would press these flat: the axis is then the lines'. */
  function ofLines(lines) {
    const ends = (values) => [Math.min(...values), Math.max(...values)];
    const told = (value) => typeof value === "number";
    const [low, high] = ends(lines.flatMap((line) => line.y).filter(told));
    const [least, most] = ends(lines.flatMap((line) => [...line.y, ...(line.low || []), ...(line.high || [])]).filter(told));
    const span = high - low;
    return span > 0 && most - least > 3 * span ? [Math.max(least, low - span / 2), Math.min(most, high + span / 2)] : undefined;
  }

  function nothing(lines, ink) {
    if (lines.some((line) => line.y.some((value) => value !== null))) return [];
    return [{ x: 0.5, y: 0.5, xref: "paper", yref: "paper", text: "No numbers in these steps", showarrow: false, font: { size: 12, color: ink } }];
  }

  /* Of numbers that would stand on each other, by how many pixels each is moved up: both by the half of what lacks. */
  function movedApart(ends, lines) {
    const values = lines.flatMap((line) => [line.y, line.low || [], line.high || []].flat()).filter((value) => value !== null);
    const scale = TALL / Math.max(Math.max(...values) - Math.min(...values), 1e-12);
    const rows = [...ends].sort((one, other) => one.y - other.y);
    const places = rows.map((row) => row.y * scale);
    for (let pass = 0; pass < 8; pass += 1) for (let at = 1; at < rows.length; at += 1) {
      const lack = APART - (places[at] - places[at - 1]);
      if (lack > 0) [places[at - 1], places[at]] = [places[at - 1] - lack / 2, places[at] + lack / 2];
    }
    return new Map(rows.map((row, at) => [row, Math.round(places[at] - row.y * scale)]));
  }

  /* The last number at the end of each line, and how much is to come. */
  function lasts(chart, lines, view, tones, soft) {
    if (!chart.large) return [];
    const found = [];
    if (lines.length <= 3) lines.forEach((line, place) => {
      const values = line.rare ? line.y : envarium.smooth(line.y, view.smoothing);
      const at = values.findLastIndex((value) => value !== null);
      if (at >= 0 && !line.rare) found.push({ x: line.at[at], y: values[at], xanchor: "left", showarrow: false, xshift: 4, text: String(Number(values[at].toPrecision(3))), font: { size: 12, color: tones[place % tones.length] } });
    });
    for (const [end, by] of movedApart(found, lines)) end.yshift = by;
    if (view.end > view.high && view.toCome) found.push({ x: view.end, y: 0, yref: "paper", xanchor: "right", yanchor: "bottom", showarrow: false, text: view.toCome, font: { size: 11, color: soft } });
    return found;
  }

  /* Room for the legend, about: plotly would make it a box to scroll in. */
  function legendHeight(traces, across) {
    const named = traces.filter((one) => one.showlegend !== false).map((one) => one.name.split("<br>"));
    const widest = Math.max(1, ...named.flat().map((text) => text.length));
    const columns = Math.max(1, Math.floor((across - 64) / (widest * 6 + 56)));
    const deepest = Math.max(1, ...named.map((parts) => parts.length));
    return Math.ceil(named.length / columns) * (6 + 14 * deepest);
  }

  function ticks(view) {
    if (view.axis === "time") return { hoverformat: ",.3~g", ticksuffix: " h", nticks: 6 };
    if (view.axis === "tokens") return { hoverformat: ",.4~s", tickformat: "~s", nticks: 6 };
    return { hoverformat: ",d", tickformat: ",~d", ...(view.high - view.low < 6 ? { dtick: 1 } : { nticks: 6 }) };
  }

  function layout(chart, lines, view, tones, ink, soft, legend) {
    const range = chart.stacked ? [0, 1] : flat(lines) || (chart.toLines ? ofLines(lines) : undefined);
    const over = words(chart, view, soft);
    const axis = { gridcolor: colour("--line"), zerolinecolor: colour("--line"), linecolor: colour("--control"), tickfont: { size: 11, color: soft }, automargin: true };
    const wide = Math.max(1, view.high - view.low) * 0.02;
    const named = lines.length > 1 || lines.some((line) => line.spread || (line.low && (line.band || !line.rare)));
    return {
      width: view.inner,
      height: (named ? 190 + legend : 220) + (chart.large ? 110 : 0),
      margin: { t: over.length ? 20 : 8, l: 44, r: chart.large ? 48 : 24, b: 28 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: window.getComputedStyle(document.body).fontFamily, color: ink, size: 12 },
      hovermode: "x unified",
      hoverlabel: { bgcolor: colour("--raised"), bordercolor: colour("--control"), font: { color: ink, size: 12 } },
      dragmode: coarse.matches ? false : "zoom",
      showlegend: named,
      legend: { orientation: "h", traceorder: "normal", x: 0, y: chart.large ? -0.12 : -0.2, yanchor: "top", font: { size: 11, color: ink }, itemwidth: 40, maxheight: 2000 },
      xaxis: { ...axis, range: [view.low - wide, Math.max(view.high, view.end || 0) + wide], ...ticks(view) },
      yaxis: { ...axis, fixedrange: true, rangemode: chart.share ? "tozero" : "normal", range, autorange: range === undefined, nticks: 6, exponentformat: "e" },
      shapes: shapes(view, ink, soft),
      annotations: [...over, ...lasts(chart, lines, view, tones, soft), ...nothing(lines, soft)],
    };
  }

  /* Of another width a chart is drawn anew, with as much height as its legend then needs, which plotly by itself would
     cut. Twice: the first time plotly puts the legend where the old margins had it. */
  const last = new WeakMap();
  const widths = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const known = last.get(target);
      if (target.clientWidth && known.across !== target.clientWidth) envarium.drawCurve(target, ...known.all).then(() => envarium.drawCurve(target, ...last.get(target).all));
    }
  });

  envarium.drawCurve = (box, chart, given, asked) => {
    const { paddingLeft, paddingRight } = window.getComputedStyle(box);
    const view = { ...asked, across: box.clientWidth, inner: box.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight) };
    last.set(box, { across: box.clientWidth, all: [chart, given, asked] });
    widths.observe(box);
    const tones = TOKENS.map(colour);
    const ink = colour("--text");
    const soft = colour("--muted");
    const lines = given.map((line) => ({ ...line, at: view.axis === "step" ? line.x : line.x.map((step) => view.place(step, line)) }));
    const banded = lines.find((line) => line.band);
    const under = chart.stacked ? [] : lines.flatMap((line, place) => bands(line, tones[place % tones.length], place === 0 && lines.length < 3, lines.length > 3 && !line.band, line === banded));
    const raw = lines.flatMap((line, place) => recorded(line, place, chart, tones, view));
    const rings = lines.flatMap((line, place) => unverified(line, place, chart, tones, view));
    const traces = [...under, ...raw, ...rings, ...lines.map((line, place) => trace(line, place, chart, tones, view))];
    return window.Plotly.react(box, traces, layout(chart, lines, view, tones, ink, soft, legendHeight(traces, box.clientWidth)), { displayModeBar: false, doubleClick: false });
  };
})();
