/* Draws the treemap with plotly in the page's own colours; a click goes to the label, and never drills down unseen. */
"use strict";

(() => {
  const box = document.getElementById("treemap");
  const data = JSON.parse(document.getElementById("treemap-data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const LETTER = 6; /* px of one, about */
  const LINE = 15;
  const LEAST = 84 * 72; /* px² of a tile that can be read; smaller ones of one label are drawn as one tile */
  const places = new Map(data.ids.map((id, at) => [id, at]));
  const size = { width: 0, height: 0 }; /* read once a drawing: to ask the box between changes makes the browser lay it out */
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

  /* About the side of a tile: an outer one is seldom narrower than two thirds of a square's, and around an inner one stand
     its outer one's head and edges. */
  const [OUTER, INNER] = [0.64, 0.52];
  const side = (at, total, part) => part * Math.sqrt((data.values[at] / total) * size.width * size.height);
  /* An entity ("&amp;") is one letter, and never cut through. */
  const letters = (text) => text.match(/&amp;|./gsu) || [];
  const cut = (text, room) => {
    const all = letters(text);
    return all.length <= room ? text : `${all.slice(0, Math.max(1, room - 1)).join("").trimEnd()}…`;
  };

  /* The head of a tile is one line: the numbers stand there where they fit beside the name. */
  function head(at, total) {
    const room = Math.floor(side(at, total, OUTER) / LETTER);
    const whole = `${data.labels[at]} · ${numbers(at)}`;
    return letters(whole).length < room ? whole : cut(data.labels[at], room);
  }

  /* An inner tile has as many lines as fit, the last of them its numbers; what is cut ends with an ellipsis. */
  function body(at, total) {
    const room = Math.floor(side(at, total, INNER) / LETTER);
    const most = Math.max(1, Math.floor(side(at, total, INNER) / LINE) - 1);
    const lines = data.texts[at].split("<br>");
    const shown = lines.slice(0, most).map((line) => cut(line, room));
    if (lines.length > most) shown[most - 1] = cut(`${lines[most - 1]} ${lines[most]}`, Math.min(room, letters(lines[most - 1]).length + 2));
    return [...shown, numbers(at)].join("<br>");
  }

  function hint(at) {
    const rate = data.rates[at] ? `, pass rate ${data.rates[at]}` : "";
    return `${data.names[at]}: ${data.values[at].toLocaleString("en-US")} ${data.measure}${rate}`;
  }

  /* Tiles that can be read, and for each label around smaller ones one tile of all those. */
  function readable(all, total) {
    const area = (value) => (value / total) * size.width * size.height;
    const rest = new Map();
    for (const at of all) {
      if (area(data.values[at]) >= LEAST) continue;
      const known = rest.get(data.parents[at]) || { count: 0, value: 0, tiles: new Set() };
      known.count += 1;
      known.value += data.values[at];
      known.tiles.add(at);
      rest.set(data.parents[at], known);
    }
    for (const [parent, one] of rest) if (one.count < 2) rest.delete(parent);
    const gone = new Set([...rest.values()].flatMap((one) => [...one.tiles]));
    const kept = all.filter((at) => !gone.has(at) && !gone.has(places.get(data.parents[at])));
    const shown = new Set(kept.map((at) => data.ids[at]));
    const around = (parent) => !parent || shown.has(parent);
    return { kept, rest: [...rest].filter(([parent]) => around(parent)) };
  }

  function draw() {
    [size.width, size.height] = [box.clientWidth, box.clientHeight];
    const text = colour("--text");
    const heads = new Set(data.parents);
    const all = data.ids.map((_, at) => at);
    const total = data.values.reduce((sum, value, at) => (data.parents[at] ? sum : sum + value), 0);
    const wanted = narrow.matches ? all.filter((at) => !data.parents[at]) : all; /* inner labels would not fit */
    const { kept: drawn, rest } = readable(wanted, total);
    const more = (one) => `${one.count.toLocaleString("en-US")} more`;
    const said = (one) => `${more(one)}: ${one.value.toLocaleString("en-US")} ${data.measure} together`;
    const fills = { low: colour("--bad-soft"), middle: colour("--warn-soft"), high: colour("--good-soft") };
    const sunk = colour("--sunk");
    const plain = { outer: colour("--accent-soft"), inner: colour("--surface") };
    const fill = (at) => fills[data.bands[at]] || (data.parents[at] || !heads.has(data.ids[at]) ? plain.inner : plain.outer);
    const of = (column) => drawn.map((at) => data[column][at]);
    const trace = {
      type: "treemap",
      ids: ["root", ...of("ids"), ...rest.map(([parent]) => `more-${parent}`)],
      labels: [data.root, ...drawn.map((at) => head(at, total)), ...rest.map(([, one]) => more(one))],
      text: [data.root, ...drawn.map((at) => (heads.has(data.ids[at]) && !narrow.matches ? head(at, total) : body(at, total))), ...rest.map(([, one]) => more(one))],
      customdata: [`${data.root}: ${total.toLocaleString("en-US")} ${data.measure}`, ...drawn.map(hint), ...rest.map(([, one]) => said(one))],
      parents: ["", ...of("parents").map((parent) => parent || "root"), ...rest.map(([parent]) => parent || "root")],
      values: [total, ...of("values"), ...rest.map(([, one]) => one.value)],
      branchvalues: "total",
      sort: true,
      textinfo: "text",
      hovertemplate: "%{customdata}<extra></extra>",
      pathbar: { visible: false },
      tiling: { packing: "squarify", pad: 2 },
      marker: {
        colors: [plain.inner, ...drawn.map(fill), ...rest.map(() => sunk)],
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
      const id = event.points[0].id;
      if (id === "more-") window.location.hash = "twin";
      const at = data.ids.indexOf(id.replace("more-", ""));
      if (at >= 0) window.location.assign(data.urls[at]);
      return false;
    });
  });
  for (const query of [dark, narrow]) query.addEventListener("change", draw);
})();
