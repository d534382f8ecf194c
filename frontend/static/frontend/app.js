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

document.addEventListener("htmx:afterSwap", (event) => {
  if (event.detail.target.matches("[popover]")) event.detail.target.showPopover();
});
