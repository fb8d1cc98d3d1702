/* Editors of drafts: Ace over each source field, where it is there; without it the plain fields do the same. */
"use strict";

(() => {
  const NARROW = 600;
  const LINES = { least: 12, most: 40 };

  const dark = () => {
    const chosen = document.documentElement.dataset.theme;
    if (chosen === "dark" || chosen === "light") return chosen === "dark";
    return window.matchMedia("(prefers-color-scheme: dark)").matches;
  };
  const theme = () => (dark() ? "ace/theme/github_dark" : "ace/theme/github_light_default");

  function configure() {
    const script = document.querySelector("script[src*='ace/ace']");
    if (!window.ace || !script) return false;
    window.ace.config.set("useStrictCSP", true);
    window.ace.config.set("basePath", new URL(".", script.src).pathname.replace(/\/$/, ""));
    return true;
  }

  function drawn(field) {
    const box = document.createElement("div");
    box.className = "ace-box";
    field.after(box);
    const editor = window.ace.edit(box, {
      value: field.value,
      mode: `ace/mode/${field.dataset.editor}`,
      theme: theme(),
      firstLineNumber: Number(field.dataset.first || 1),
      minLines: field.closest(".edit-check") ? 6 : LINES.least,
      maxLines: LINES.most,
      tabSize: 4,
      useSoftTabs: true,
      useWorker: false,
      readOnly: field.readOnly,
      wrap: window.innerWidth < NARROW,
      showPrintMargin: false,
      highlightActiveLine: false,
      enableKeyboardAccessibility: true,
      textInputAriaLabel: field.labels?.[0]?.textContent.trim() || "Source",
    });
    field.hidden = true;
    const first = Number(field.dataset.first || 1);
    for (const line of (field.dataset.cited || "").split(",").filter(Boolean).map(Number)) {
      editor.session.addGutterDecoration(line - first, "cited");
    }
    editor.session.on("change", () => {
      field.value = editor.getValue();
      field.dispatchEvent(new Event("input", { bubbles: true }));
    });
    /* Ctrl+S and Ctrl+Enter are the page's. */
    editor.commands.removeCommands(["showSettingsMenu", "gotoline"]);
    const details = field.closest("details");
    if (details) details.addEventListener("toggle", () => editor.resize());
    return editor;
  }

  function begin() {
    if (!document.querySelector("form[data-edit]") || !configure()) return;
    const editors = [...document.querySelectorAll("textarea[data-editor]")].filter((field) => !field.hidden).map(drawn);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      for (const editor of editors) editor.setTheme(theme());
    });
  }

  /* What is typed and not kept is asked about before the page is left. */
  function watch() {
    const form = document.querySelector("form[data-edit]");
    if (!form) return;
    let dirty = false;
    form.addEventListener("input", () => { dirty = true; });
    form.addEventListener("submit", () => { dirty = false; });
    document.body.addEventListener("htmx:afterRequest", () => { dirty = false; });
    window.addEventListener("beforeunload", (event) => { if (dirty) event.preventDefault(); });
  }

  document.addEventListener("DOMContentLoaded", () => { begin(); watch(); });
})();
