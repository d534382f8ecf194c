// What HTML and htmx cannot do alone: copy to the clipboard, forget a preview that no longer fits its form,
// open what was fetched for a popover, let a selection and a form be, keep a reload from doing again what was done,
// keep the colours that somebody chose.

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const source = document.getElementById(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(source);
    button.textContent = "Selected";
  }
  setTimeout(() => (button.textContent = "Copy"), 2000);
});

document.addEventListener("input", (event) => {
  const ids = event.target.dataset.clears ?? event.target.form?.dataset.clears ?? "";
  for (const id of ids.split(" ")) document.getElementById(id)?.replaceChildren();
});

// What is shown only once answered a form: loading the page again must not send that form again.
const once = document.querySelector("[data-once]");
if (once) history.replaceState(null, "", once.dataset.once);

// The server writes them into every page, so that none shows others first.
document.addEventListener("change", ({ target }) => {
  if (target.name !== "theme") return;
  const age = target.value ? 365 * 24 * 3600 : 0;
  const safely = location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `hmi_theme=${target.value}; Path=/; Max-Age=${age}; SameSite=Lax${safely}`;
  if (target.value) document.documentElement.dataset.theme = target.value;
  else delete document.documentElement.dataset.theme;
});

// A file that is dropped beside its field must not be opened in place of the page, with all that was filled in.
for (const kind of ["dragover", "drop"]) {
  document.addEventListener(kind, (event) => {
    if (!event.dataTransfer.types.includes("Files") || event.target.closest?.("input[type=file]")) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "none";
  });
}

// What scrolls sideways is reached by the keyboard, as long as it does.
const SCROLLERS = ".scroll, .snippet pre";
const sides = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  }
});
htmx.onLoad((part) => {
  for (const one of [part, ...part.querySelectorAll(SCROLLERS)]) if (one.matches(SCROLLERS)) sides.observe(one);
});

// What comes back by the browser's own way back has no target.
document.addEventListener("htmx:afterSwap", ({ detail }) => {
  if (detail.target?.matches("[popover]")) detail.target.showPopover();
});

// What a page asks for by itself, again and again.
const BY_ITSELF = "[hx-trigger*='every'], [hx-trigger*='sse:'], [hx-trigger*='look']";

// It must not be replaced under a selection that somebody is about to copy: it waits until nothing is selected.
const waiting = new Set();
document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  const asked = detail.requestConfig.elt;
  const selection = getSelection();
  if (!asked.matches(BY_ITSELF) || selection.isCollapsed || !selection.containsNode(detail.target, true)) return;
  detail.shouldSwap = false;
  waiting.add(asked);
});
document.addEventListener("selectionchange", () => {
  if (!getSelection().isCollapsed) return;
  for (const part of waiting) htmx.trigger(part, "look");
  waiting.clear();
});

// It is no longer there for this person: the page itself says why.
document.addEventListener("htmx:responseError", ({ detail }) => {
  const gone = [403, 404].includes(detail.xhr.status);
  if (gone && detail.elt.matches(BY_ITSELF)) location.replace(location.pathname + location.search);
});
