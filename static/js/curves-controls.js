/* What job pages and comparisons share: smoothing and the axis, both kept in the address; steps as time or tokens. */
"use strict";

(() => {
  const envarium = (window.envarium = window.envarium || {});
  const STANDARD = 0.6;

  /* The value of a broken line at a place, between the points that are known. */
  envarium.along = (from, to, value) => {
    const end = from.findIndex((one) => one >= value);
    if (end <= 0) return end === 0 ? to[0] : to.at(-1);
    const share = (value - from[end - 1]) / Math.max(from[end] - from[end - 1], 1e-12);
    return to[end - 1] + share * (to[end] - to[end - 1]);
  };

  function note(name, value, standard) {
    const here = new URL(window.location.href);
    if (String(value) === String(standard)) here.searchParams.delete(name);
    else here.searchParams.set(name, value);
    window.history.replaceState(null, "", here);
  }

  /* {smoothing, axis}, as the controls say; `redraw` is called for the first, `again` for the second. */
  envarium.curveControls = (axis, redraw, again) => {
    const settings = { smoothing: STANDARD, axis: axis || "step" };
    const slider = document.getElementById("smoothing");
    if (!slider) return settings;
    const say = (value) => {
      settings.smoothing = Math.min(0.99, Math.max(0, Number(value) || 0));
      slider.value = String(settings.smoothing);
      document.getElementById("smoothed").value = settings.smoothing.toFixed(2);
    };
    say(new URL(window.location.href).searchParams.get("smooth") ?? STANDARD);
    slider.addEventListener("input", () => { say(slider.value); redraw(); });
    slider.addEventListener("change", () => note("smooth", slider.value, STANDARD));
    for (const one of document.querySelectorAll("#axis input")) {
      one.checked = one.value === settings.axis;
      one.addEventListener("change", () => {
        settings.axis = one.value;
        note("x", one.value, "step");
        again();
      });
    }
    return settings;
  };
})();
