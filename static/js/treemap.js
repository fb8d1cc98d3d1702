/* Draws the treemap with plotly in the page's own colours; a click goes to the label, and never drills down unseen. */
"use strict";

(() => {
  const box = document.getElementById("treemap");
  const data = JSON.parse(document.getElementById("treemap-data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  /* The colour a token has now: light-dark() is only known to the browser once it is used. */
  function colour(token) {
    const probe = document.createElement("span");
    probe.style.color = `var(${token})`;
    box.append(probe);
    const found = window.getComputedStyle(probe).color;
    probe.remove();
    return found;
  }

  function draw() {
    const outer = colour("--sunk");
    const inner = colour("--accent-soft");
    const text = colour("--text");
    const total = data.values.reduce((sum, value, at) => (data.parents[at] ? sum : sum + value), 0);
    const trace = {
      type: "treemap",
      ids: ["root", ...data.ids],
      labels: [data.root, ...data.labels],
      text: [data.root, ...data.texts],
      parents: ["", ...data.parents.map((parent) => parent || "root")],
      values: [total, ...data.values],
      branchvalues: "total",
      sort: true,
      textinfo: "text+value",
      hovertemplate: `%{label}: %{value:,} ${data.measure}<extra></extra>`,
      pathbar: { visible: false },
      tiling: { packing: "squarify", pad: 2 },
      marker: {
        colors: [colour("--surface"), ...data.parents.map((parent) => (parent ? inner : outer))],
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
  dark.addEventListener("change", draw);
})();
