/* A drawn graph: a click on a node is one on its link in the list beside it, which changes that part of the page alone. */
"use strict";

document.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const node = event.target.closest("svg.graph a[data-node]");
  const desk = node?.closest("[data-graph-desk]");
  const link = desk && [...desk.querySelectorAll("[data-node-link]")].find((one) => one.dataset.nodeLink === node.dataset.node);
  if (!link) return;
  event.preventDefault();
  link.click();
});

/* What is chosen stands in sight, wherever the list and the drawing were scrolled to. */
function showChosen() {
  for (const chosen of document.querySelectorAll("[data-graph-desk] :is([aria-current], .node.on)")) {
    const box = chosen.closest(".graph-order, .graph-canvas, .table");
    if (!box) continue;
    const own = chosen.getBoundingClientRect();
    const around = box.getBoundingClientRect();
    if (own.top < around.top || own.bottom > around.bottom) box.scrollTop += own.top - around.top - around.height / 3;
    if (own.left < around.left || own.right > around.right) box.scrollLeft += own.left - around.left - around.width / 3;
  }
}

document.addEventListener("htmx:afterSettle", showChosen);
showChosen();
