/* Draws the treemap with plotly in the page's own colours; a click goes to the label, and never drills down unseen. */
"use strict";

(() => {
  const box = document.getElementById("treemap");
  const data = JSON.parse(document.getElementById("treemap-data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const LETTER = 6; /* px of one, about */
  const narrow = window.matchMedia("(width <= 640px)");

  /* The colour a token has now: light-dark() is only known to the browser once it is used. */
  function colour(token) {
    const probe = document.createElement("span");
    probe.style.color = `var(${token})`;
    box.append(probe);
    const found = window.getComputedStyle(probe).color;
    probe.remove();
    return found;
  }

  /* Name, then number, then pass rate: in lines on a tile, in one where it is the head of others. */
  function numbers(at) {
    return [data.values[at].toLocaleString("en-US"), data.rates[at]].filter(Boolean).join(" · ");
  }

  /* The head of a tile is one line: the numbers stand there where they fit beside the name. */
  function head(at, total) {
    const room = Math.sqrt((data.values[at] / total) * box.clientWidth * box.clientHeight) / LETTER;
    const whole = `${data.labels[at]} · ${numbers(at)}`;
    return whole.length < room ? whole : data.labels[at];
  }

  function hint(at) {
    const rate = data.rates[at] ? `, pass rate ${data.rates[at]}` : "";
    return `${data.labels[at]}: ${data.values[at].toLocaleString("en-US")} ${data.measure}${rate}`;
  }

  function draw() {
    const text = colour("--text");
    const heads = new Set(data.parents);
    const all = data.ids.map((_, at) => at);
    const drawn = narrow.matches ? all.filter((at) => !data.parents[at]) : all; /* inner labels would not fit */
    const fills = { low: colour("--bad-soft"), middle: colour("--warn-soft"), high: colour("--good-soft") };
    const plain = { outer: colour("--accent-soft"), inner: colour("--surface") };
    const fill = (at) => fills[data.bands[at]] || (data.parents[at] || !heads.has(data.ids[at]) ? plain.inner : plain.outer);
    const of = (column) => drawn.map((at) => data[column][at]);
    const total = data.values.reduce((sum, value, at) => (data.parents[at] ? sum : sum + value), 0);
    const trace = {
      type: "treemap",
      ids: ["root", ...of("ids")],
      labels: [data.root, ...drawn.map((at) => head(at, total))],
      text: [data.root, ...drawn.map((at) => `${data.texts[at]}<br>${numbers(at)}`)],
      customdata: [`${data.root}: ${total.toLocaleString("en-US")} ${data.measure}`, ...drawn.map(hint)],
      parents: ["", ...of("parents").map((parent) => parent || "root")],
      values: [total, ...of("values")],
      branchvalues: "total",
      sort: true,
      textinfo: "text",
      hovertemplate: "%{customdata}<extra></extra>",
      pathbar: { visible: false },
      tiling: { packing: "squarify", pad: 2 },
      marker: {
        colors: [plain.inner, ...drawn.map(fill)],
        line: { color: colour("--control"), width: 1 },
        pad: { t: 22, l: 3, r: 3, b: 3 },
        cornerradius: 3,
      },
      textfont: { color: text, size: 13 },
      hoverlabel: { bgcolor: colour("--raised"), bordercolor: colour("--control"), font: { color: text } },
    };
    const layout = {
      margin: { t: 4, l: 4, r: 4, b: 4 },
      paper_bgcolor: colour("--surface"),
      font: { family: window.getComputedStyle(document.body).fontFamily, color: text },
      uniformtext: { minsize: 9, mode: "hide" },
    };
    return window.Plotly.react(box, [trace], layout, { displayModeBar: false, responsive: true });
  }

  if (!window.Plotly) {
    box.textContent = "The drawing could not be loaded. The table below has the same labels and numbers.";
    return;
  }
  draw().then(() => {
    box.on("plotly_treemapclick", (event) => {
      const at = data.ids.indexOf(event.points[0].id);
      if (at >= 0) window.location.assign(data.urls[at]);
      return false;
    });
  });
  for (const query of [dark, narrow]) query.addEventListener("change", draw);
})();
