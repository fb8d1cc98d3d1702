/* Texts are never cut: a field's limit (data-most) is counted beside it from nine tenths on, and a form with a text that is too long is
   not sent. There is no attribute maxlength, which would drop the end of what is pasted. Without this script the server refuses it. */
"use strict";

(() => {
  const NEAR = 0.9;
  const LIMITED = "input[data-most], textarea[data-most]";
  const counters = new WeakMap();
  let number = 0;

  function addCounter(field) {
    const counter = document.createElement("span");
    counter.className = "length-said";
    counter.id = `length-said-${number += 1}`;
    counter.setAttribute("role", "status");
    field.after(counter);
    counters.set(field, counter);
    return counter;
  }

  function show(field) {
    const most = Number(field.dataset.most);
    /* The server counts characters as Unicode code points, and a line break as one. */
    const count = [...field.value].length;
    const counter = counters.get(field) || addCounter(field);
    const far = `${count.toLocaleString("en")} of ${most.toLocaleString("en")} characters`;
    const over = count > most ? `${far}: shorten it by ${(count - most).toLocaleString("en")}` : "";
    const wasOver = field.validity.customError;
    field.setCustomValidity(over);
    if (over) field.setAttribute("aria-invalid", "true");
    else if (wasOver) field.removeAttribute("aria-invalid"); // what the server found wrong stays marked
    counter.classList.toggle("near", !over);
    counter.textContent = over || (count >= NEAR * most ? far : "");
  }

  function begin() {
    for (const field of document.querySelectorAll(LIMITED)) if (!counters.has(field)) show(field);
  }
  /* Heard on the document: parts of a page come by other scripts as well, and some keep their input to themselves. */
  document.addEventListener("input", ({ target }) => { if (target.matches?.(LIMITED)) show(target); }, true);
  document.addEventListener("DOMContentLoaded", begin);
  document.addEventListener("htmx:afterSettle", begin);
})();
