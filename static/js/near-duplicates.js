/* Keys on a page of near-duplicate groups: they press a button of the row that has the focus. */
"use strict";

(() => {
  const words = { a: "Keep apart the theme with the focus", s: "Keep instead the theme with the focus" };
  for (const [key, does] of Object.entries(words)) {
    window.envarium.keys.add({
      key,
      does,
      group: "Near-duplicates",
      run: () => document.activeElement?.closest("[data-row]")?.querySelector(`[data-act="${key}"]`)?.click(),
    });
  }
})();
