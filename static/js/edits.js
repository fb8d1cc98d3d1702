/* Editors of drafts: Ace over each source field, where it is there; without it the plain fields do the same. */
"use strict";

(() => {
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

  /* A line that a verdict cites stays marked where it goes while lines come in above it. */
  function cite(session, row) {
    session.addGutterDecoration(row, "cited");
    session.doc.createAnchor(row, 0).on("change", ({ old, value }) => {
      if (old.row === value.row) return;
      session.removeGutterDecoration(old.row, "cited");
      session.addGutterDecoration(value.row, "cited");
    });
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
      wrap: true,
      showPrintMargin: false,
      highlightActiveLine: false,
      enableKeyboardAccessibility: true,
      textInputAriaLabel: field.labels?.[0]?.textContent.trim() || "Source",
    });
    field.hidden = true;
    const first = Number(field.dataset.first || 1);
    for (const line of (field.dataset.cited || "").split(",").filter(Boolean).map(Number)) {
      cite(editor.session, line - first);
    }
    editor.session.on("change", () => {
      field.value = editor.getValue();
      field.dispatchEvent(new Event("input", { bubbles: true }));
    });
    /* Ctrl+S and Ctrl+Enter are the page's. */
    editor.commands.removeCommands(["showSettingsMenu", "gotoline"]);
    const details = field.closest("details");
    if (details) details.addEventListener("toggle", () => editor.resize());
    /* Ace keeps the page where it is as the focus leaves it, even if the next field is out of sight. */
    box.addEventListener("focusout", ({ relatedTarget }) => {
      if (relatedTarget && !box.contains(relatedTarget)) relatedTarget.scrollIntoView({ block: "nearest" });
    });
    return editor;
  }

  /* What cannot be saved as it is kept may be mended by what is typed now. */
  function allowSaving(field, allowed) {
    const buttons = field.closest("form[data-edit]")?.querySelectorAll("[data-until-typed]") || [];
    for (const button of buttons) button.disabled = !allowed;
  }
  document.addEventListener("input", (event) => allowSaving(event.target, true));
  document.addEventListener("htmx:afterSettle", (event) => {
    if (event.target.matches("#edit-kept[data-faulty]")) allowSaving(event.target, false);
  });

  let editors = [];
  function begin() {
    if (!document.querySelector("form[data-edit]") || !configure()) return;
    editors = editors.filter((editor) => editor.container.isConnected);
    editors.push(...[...document.querySelectorAll("textarea[data-editor]")].filter((field) => !field.hidden).map(drawn));
  }

  /* On a desk the draft takes the place of what was read: who opened it goes on there. */
  function openedInPlace(event) {
    begin();
    if (event.target.id === "tool-source") editors.at(-1)?.focus();
    if (event.target.id === "task-asked") document.getElementById("edit-instruction")?.focus();
  }

  /* On a desk a draft is kept by itself; what is typed and not kept is asked about before the page, or the item, is left. */
  const KEEP_MS = 4000;
  let typed = 0;
  let kept = 0;
  let waiting = 0;
  const formOf = (element) => element.form?.closest("form[data-edit]") || element.closest?.("form[data-edit]");
  const ofDraft = (event) => formOf(event.target);
  const dirty = () => typed > kept && document.querySelector("form[data-edit]");
  function keepSoon(form) {
    window.clearTimeout(waiting);
    waiting = window.setTimeout(() => { if (form.isConnected && dirty()) form.querySelector("[data-keep]")?.click(); }, KEEP_MS);
  }
  function keepRedrawn() {
    const form = document.querySelector("form[data-edit][data-keeps]");
    if (form) keepSoon(form);
  }
  document.addEventListener("input", (event) => {
    const form = ofDraft(event);
    if (!form) return;
    typed += 1;
    if (form.matches("[data-keeps]")) keepSoon(form);
  });
  /* Requests of the draft's form that are under way, with how much had been typed when each was sent. They are counted by
     request: an answer may replace the button that asked for it, and its end is then told of by another element. */
  const underWay = new Map();
  let waits = null;
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("form[data-edit]") || event.defaultPrevented) return;
    if (!underWay.size) { kept = typed; return; }
    /* Sent now, it would name the draft as it was before the request under way: it is sent after that. */
    event.preventDefault();
    event.stopImmediatePropagation();
    waits = { form: event.target, by: event.submitter };
  }, true);
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (ofDraft(event)) underWay.set(event.detail.xhr, { typed, button: event.target });
  });
  document.addEventListener("htmx:beforeOnLoad", (event) => {
    const saved = event.detail.xhr.getResponseHeader("HX-Redirect");
    if (underWay.has(event.detail.xhr) && saved) kept = typed; // the page is left for what was saved
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    const { xhr, successful } = event.detail;
    const request = underWay.get(xhr);
    if (!request) return;
    underWay.delete(xhr);
    const isKept = successful && !request.button.matches("[data-redraws]") && !document.querySelector("#edit-kept .bad");
    if (successful && request.button.matches("[data-redraws]")) { typed += 1; keepRedrawn(); } // typed as well, and not kept yet
    if (isKept) kept = Math.max(kept, request.typed);
    const form = document.getElementById("edit-form");
    if (isKept && !dirty()) form?.dispatchEvent(new CustomEvent("held:kept", { bubbles: true }));
    if (underWay.size || !waits) return;
    const { form: waiting, by } = waits;
    waits = null;
    if (waiting.isConnected) waiting.requestSubmit(by?.isConnected ? by : undefined);
  });
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("form[data-decide]") || !dirty()) return;
    if (window.confirm("What you typed into the draft of your edit is not kept yet. Decide anyway?")) { kept = typed; return; }
    event.preventDefault();
    event.stopImmediatePropagation();
  }, true);
  document.addEventListener("held:discarded", () => { kept = typed; });
  window.addEventListener("beforeunload", (event) => { if (dirty()) event.preventDefault(); });

  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const editor of editors) editor.setTheme(theme());
  });
  document.addEventListener("DOMContentLoaded", begin);
  document.addEventListener("htmx:afterSettle", openedInPlace);
})();
