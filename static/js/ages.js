/* Ages that go on counting: `<span data-age="42.3">sent 42 s ago</span>` was 42.3 seconds old when its page was made. */
"use strict";

(() => {
  const EVERY_MS = 1000;
  const born = new WeakMap(); // when each began, by this browser's clock: the server's may differ

  function describe(seconds) {
    const whole = Math.floor(seconds);
    if (whole < 60) return `${whole} s`;
    const minutes = Math.floor(whole / 60);
    return minutes < 60 ? `${minutes} min ${whole % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  }

  function tick() {
    const now = performance.now();
    for (const shown of document.querySelectorAll("[data-age]")) {
      const known = born.get(shown);
      if (known?.given !== shown.dataset.age) {
        born.set(shown, { given: shown.dataset.age, at: now - Number(shown.dataset.age) * 1000 });
      }
      const text = `sent ${describe((now - born.get(shown).at) / 1000)} ago`;
      if (shown.textContent !== text) shown.textContent = text;
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    tick();
    window.setInterval(tick, EVERY_MS);
  });
})();
