/* Texts are never cut: a field's limit (data-most) is counted beside it from nine tenths on, and a form with a text that is too long is
   not sent. There is no attribute maxlength, which would drop the end of what is pasted. Without this script the server refuses it. */
"use strict";

(() => {
  const NEAR = 0.9;

  function show(field, most) {
    /* The server counts characters as Unicode code points, and a line break as one. */
    const count = [...field.value].length;
    const said = document.getElementById(field.dataset.lengthSaid);
    const far = `${count.toLocaleString("en")} of ${most.toLocaleString("en")} characters`;
    const over = count > most ? `${far}: shorten it by ${(count - most).toLocaleString("en")}` : "";
    field.setCustomValidity(over);
    if (over) field.setAttribute("aria-invalid", "true"); else field.removeAttribute("aria-invalid");
    if (!said) return;
    said.classList.toggle("near", !over);
    said.textContent = over || (count >= NEAR * most ? far : "");
  }

  let number = 0;
  function begin() {
    for (const field of document.querySelectorAll("input[data-most], textarea[data-most]")) {
      const most = Number(field.dataset.most);
      delete field.dataset.most;
      const said = document.createElement("span");
      said.className = "length-said";
      said.id = `length-said-${number += 1}`;
      said.setAttribute("role", "status");
      field.after(said);
      field.dataset.lengthSaid = said.id;
      field.addEventListener("input", () => show(field, most));
      show(field, most);
    }
  }
  document.addEventListener("DOMContentLoaded", begin);
  document.addEventListener("htmx:afterSettle", begin);
})();
