// What HTML and htmx cannot do alone: copy to the clipboard, forget a preview that no longer fits its form,
// open what was fetched for a popover.

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
  const preview = document.getElementById(event.target.form?.dataset.clears ?? "");
  if (preview) preview.replaceChildren();
});

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

// What a page asks for again and again is no longer there for this person: the page itself says why.
document.addEventListener("htmx:responseError", ({ detail }) => {
  const again = detail.elt.matches("[hx-trigger*='every'], [hx-trigger*='sse:']");
  if (again && [403, 404].includes(detail.xhr.status)) location.replace(location.pathname + location.search);
});
