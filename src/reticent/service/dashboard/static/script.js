// Conveniences only: every page works without this script.
"use strict";

for (const tree of document.querySelectorAll("[data-tree]")) {
  const steps = tree.querySelectorAll("details");
  const tools = tree.querySelector("[data-tools]");
  if (steps.length > 1) tools.hidden = false;
  const all = (open) => () => { for (const step of steps) step.open = open; };
  tree.querySelector("[data-open]").addEventListener("click", all(true));
  tree.querySelector("[data-close]").addEventListener("click", all(false));
}

for (const button of document.querySelectorAll("[data-copy]")) {
  if (!navigator.clipboard) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "Copied";
  });
}

for (const form of document.querySelectorAll("[data-sure]")) {
  form.addEventListener("submit", (event) => {
    if (!window.confirm(form.dataset.sure)) event.preventDefault();
  });
}

// A second click must not send a form again while the first is under way.
for (const form of document.querySelectorAll("[data-once]")) {
  form.addEventListener("submit", () => {
    for (const button of form.querySelectorAll("button[type=submit]")) button.disabled = true;
  });
}

// A choice is shown at once; without this script the button does it.
for (const form of document.querySelectorAll("[data-choose]")) {
  for (const choice of form.querySelectorAll("select")) {
    choice.addEventListener("change", () => form.submit());
  }
}

// A file is read here and sent as the text of the form.
for (const form of document.querySelectorAll("[data-upload]")) {
  const file = form.querySelector("[type=file]");
  form.querySelector("[data-file]").hidden = false;
  const read = (bytes) => {
    try {
      return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    } catch {
      return new TextDecoder(form.dataset.encoding).decode(bytes);
    }
  };
  file.addEventListener("change", async () => {
    if (!file.files.length) return;
    const text = form.querySelector("textarea");
    try {
      text.value = read(await file.files[0].arrayBuffer());
    } catch {
      text.value = "This browser does not know how the file's letters are stored. Save it as UTF-8.";
    }
  });
}
