/* A search field over a long list of boxes to tick. Without this script the whole list is there. */
"use strict";

(() => {
  const MANY = 12;
  const byField = new Map();
  for (const box of document.querySelectorAll("input[type=checkbox][data-find]")) {
    const field = box.closest("fieldset");
    byField.set(field, [...(byField.get(field) || []), box]);
  }
  for (const [field, boxes] of byField) {
    if (boxes.length < MANY) continue;
    const find = document.createElement("input");
    find.type = "search";
    find.placeholder = "Find";
    find.autocomplete = "off";
    find.setAttribute("aria-label", `Find in ${field.querySelector("legend").textContent.trim()}`);
    const rowOf = (box) => box.closest("label").parentElement;
    const narrow = () => {
      const words = find.value.trim().toLowerCase();
      for (const box of boxes) rowOf(box).hidden = !box.checked && !rowOf(box).textContent.toLowerCase().includes(words);
    };
    find.addEventListener("input", narrow);
    find.addEventListener("keydown", (event) => {
      if (event.key === "Escape") find.value = "";
      else if (event.key === "Enter") {
        const first = boxes.find((box) => !box.checked && !rowOf(box).hidden);
        if (first && find.value.trim()) { first.click(); find.value = ""; }
      } else return;
      event.preventDefault();
      narrow();
    });
    field.querySelector(".row").before(find);
  }
})();
