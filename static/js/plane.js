/* A drawing with many links (treemap, theme map) by keyboard: one stop of the Tab key, arrows between its links. What
   the one in focus or under the pointer is stands in full below them. Listens on the document, since htmx swaps parts. */
"use strict";

(() => {
  const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

  const linkAt = (event) => (event.target.closest ? event.target.closest("[data-plane] a") : null);

  const shown = (plane) => [...plane.querySelectorAll("a")].filter((link) => link.getClientRects().length > 0);

  /* Of a large tile the place of its name, so that tiles inside it lie below. */
  function centre(link) {
    const place = link.getBoundingClientRect();
    return [place.x + place.width / 2, place.y + Math.min(place.height / 2, 11)];
  }

  /* The nearest link on that side: a step aside counts three times as much as one ahead. */
  function beside(plane, link, [across, down]) {
    const [x, y] = centre(link);
    let best = null;
    let least = Infinity;
    for (const other of shown(plane)) {
      const [otherX, otherY] = centre(other);
      const ahead = (otherX - x) * across + (otherY - y) * down;
      const aside = Math.abs((otherX - x) * down) + Math.abs((otherY - y) * across);
      if (other !== link && ahead > 1 && ahead + 3 * aside < least) [best, least] = [other, ahead + 3 * aside];
    }
    return best;
  }

  function show(event) {
    const link = linkAt(event);
    if (!link) return;
    const title = link.getAttribute("title") || link.querySelector("title").textContent;
    link.closest("[data-plane]").querySelector("[data-plane-told]").textContent = title;
  }

  document.addEventListener("keydown", (event) => {
    const link = linkAt(event);
    if (!link || event.ctrlKey || event.metaKey || event.altKey) return;
    const plane = link.closest("[data-plane]");
    const next = event.key === "Home" ? shown(plane)[0]
      : event.key === "End" ? shown(plane).at(-1)
      : ways[event.key] ? beside(plane, link, ways[event.key]) : null;
    if (!next) return;
    event.preventDefault();
    for (const one of plane.querySelectorAll('a[tabindex="0"]')) one.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  });
  document.addEventListener("focusin", show);
  document.addEventListener("mouseover", show);
})();
