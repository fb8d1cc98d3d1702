/* Long texts are never cut silently: a field's limit is told beside it, and a form with a text that is too long is not sent.
   The attribute maxlength would drop the end of what is pasted; it holds only without this script. */
"use strict";

(() => {
  const LIMITED = "input[maxlength]:not([type=search]), textarea[maxlength]";

  function show(field, most) {
    /* The server counts characters as Unicode code points, and a line break as one. */
    const count = [...field.value].length;
    const said = document.getElementById(field.dataset.lengthSaid);
    const words = `${count.toLocaleString("en")} of ${most.toLocaleString("en")} characters: shorten it by ${(count - most).toLocaleString("en")}`;
    field.setCustomValidity(count > most ? words : "");
    if (count > most) field.setAttribute("aria-invalid", "true"); else field.removeAttribute("aria-invalid");
    if (said) said.textContent = count > most ? words : "";
  }

  let number = 0;
  function begin() {
    for (const field of document.querySelectorAll(LIMITED)) {
      const most = Number(field.getAttribute("maxlength"));
      field.removeAttribute("maxlength");
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
