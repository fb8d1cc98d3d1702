/* The treemap by keyboard: one stop of the Tab key, arrows between tiles. What a tile is stands in full below them. */
"use strict";

(() => {
  const box = document.getElementById("treemap");
  const told = document.getElementById("treemap-told");
  const tiles = [...box.querySelectorAll("a.tile")];
  const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

  const shown = () => tiles.filter((tile) => tile.getClientRects().length > 0);

  function centre(tile) {
    const place = tile.getBoundingClientRect();
    return [place.x + place.width / 2, place.y + Math.min(place.height / 2, 11)];
  }

  /* The nearest tile on that side: a step aside counts three times as much as one ahead. */
  function beside(tile, [across, down]) {
    const [x, y] = centre(tile);
    let best = null;
    let least = Infinity;
    for (const other of shown()) {
      const [otherX, otherY] = centre(other);
      const ahead = (otherX - x) * across + (otherY - y) * down;
      const aside = Math.abs((otherX - x) * down) + Math.abs((otherY - y) * across);
      if (other !== tile && ahead > 1 && ahead + 3 * aside < least) [best, least] = [other, ahead + 3 * aside];
    }
    return best;
  }

  function go(tile) {
    for (const one of tiles) one.tabIndex = one === tile ? 0 : -1;
    tile.focus();
  }

  function show(event) {
    const tile = event.target.closest("a.tile");
    if (tile) told.textContent = tile.title;
  }

  box.addEventListener("keydown", (event) => {
    const tile = event.target.closest("a.tile");
    const at = shown();
    const next = !tile ? null
      : event.key === "Home" ? at[0]
      : event.key === "End" ? at[at.length - 1]
      : ways[event.key] ? beside(tile, ways[event.key]) : null;
    if (!next || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    go(next);
  });
  box.addEventListener("focusin", show);
  box.addEventListener("mouseover", show);
})();
