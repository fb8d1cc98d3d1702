/* Draws a small chart: one line over all steps, without axes. No plotly: a dozen of those would take a second.

   envarium.drawSmall(figure, line, {low, high, chosen, marks, smoothing, place}) */
"use strict";

(() => {
  const envarium = (window.envarium = window.envarium || {});
  const SVG = "http://www.w3.org/2000/svg";
  const WIDE = 400;
  const TALL = 100;

  /* A number with so many digits; one near 0 as 2.95e-7, where decimals would be mostly zeros. */
  envarium.written = (value, digits) => {
    if (value !== 0 && Math.abs(value) < 1e-4) return value.toExponential(digits - 1);
    return value.toLocaleString("en-US", { maximumSignificantDigits: digits });
  };

  /* Means over the steps before, as TensorBoard makes them: the first ones are not drawn towards zero. */
  envarium.smooth = (values, weight) => {
    if (!weight) return values;
    let mean = 0;
    let count = 0;
    return values.map((value) => {
      if (value === null) return null;
      mean = weight * mean + (1 - weight) * value;
      count += 1;
      return mean / (1 - weight ** count);
    });
  };

  const words = (value) => envarium.written(value, 4);

  function part(name, attributes) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  /* From 0 where that wastes less than half of the height. */
  function extent(values, limit) {
    let low = Math.min(...values);
    let high = Math.max(...values);
    if (limit !== null && high > limit / 3) high = Math.max(high, limit * 1.1);
    if (low > 0 && low < high / 2) low = 0;
    if (high - low <= 1e-9 * Math.abs(high)) [low, high] = high > 0 ? [0, high * 2] : high < 0 ? [low - 1, high + 1] : [0, 1];
    return [low, high];
  }

  const across = (view, x) => Math.max(0, Math.min(WIDE, ((x - view.low) / Math.max(view.high - view.low, 1e-9)) * WIDE));

  function path(line, values, view, low, high) {
    return line.x.map((step, place) => {
      const x = across(view, view.place(step, line));
      const y = TALL - ((values[place] - low) / (high - low)) * TALL;
      return `${place ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
    }).join("") + (line.x.length === 1 ? "h0.1" : "");
  }

  function upright(view, step, kind) {
    const x = across(view, view.place(step, {}));
    return part("line", { x1: x, x2: x, y1: 0, y2: TALL, class: kind });
  }

  envarium.drawSmall = (figure, lines, view) => {
    const svg = figure.querySelector("svg");
    const known = lines.filter((line) => line.x.length);
    const all = known.map((line) => envarium.smooth(line.y, view.smoothing));
    svg.replaceChildren();
    const [below, beside] = [figure.querySelector(".extent"), figure.querySelector(".at")];
    if (!known.length) {
      below.textContent = "no numbers in these steps";
      return;
    }
    const limit = figure.dataset.limit === undefined ? null : Number(figure.dataset.limit);
    const [low, high] = extent(all.flat(), limit);
    if (limit !== null && limit < high && limit > low) {
      const y = TALL - ((limit - low) / (high - low)) * TALL;
      svg.append(part("line", { x1: 0, x2: WIDE, y1: y, y2: y, class: "limit" }));
    }
    for (const mark of view.marks.filter((one) => one.kind === "alert")) svg.append(upright(view, mark.step, "alert"));
    known.forEach((line, place) => svg.append(part("path", { d: path(line, all[place], view, low, high), class: `line line-${lines.indexOf(line) % 6}` })));
    if (view.chosen !== null) svg.append(upright(view, view.chosen, "chosen"));
    const [least, most] = recorded(known);
    below.textContent = `${words(least)} to ${words(most)}`;
    below.title = "Least and greatest number recorded in these steps";
    beside.textContent = view.chosen === null ? "" : at(known[0], view.chosen);
  };

  /* The least and greatest number that was recorded, where points stand for several steps within these too. */
  function recorded(lines) {
    const all = lines.flatMap((line) => (typeof line.low === "number" ? [line.low, line.high] : line.y)).filter((value) => value !== null);
    return [Math.min(...all), Math.max(...all)];
  }

  function at(line, step) {
    const place = line.x.findIndex((end, index) => step <= end && step >= (line.first ? line.first[index] : end));
    return place < 0 ? "" : `at ${step.toLocaleString("en-US")} ${words(line.y[place])}`;
  }
})();
