// A way of swapping for htmx, hx-swap="merge": only what differs is changed, so that whoever reads a part that
// stays keeps the focus, what was selected, and the place scrolled to.

const alike = (there, wanted) => there.nodeName === wanted.nodeName && (there.id ?? "") === (wanted.id ?? "");

// The child that is to become the wanted one: the next, or for one with an id that of the same id further on.
const counterpart = (next, wanted) => {
  if (!wanted.id) return next && alike(next, wanted) ? next : null;
  while (next && !alike(next, wanted)) next = next.nextSibling;
  return next;
};

const merge = (there, wanted, changed) => {
  if (there.isEqualNode(wanted)) return;
  if (there.nodeType !== Node.ELEMENT_NODE) {
    there.data = wanted.data;
    return;
  }
  for (const { name } of [...there.attributes]) if (!wanted.hasAttribute(name)) there.removeAttribute(name);
  for (const { name, value } of wanted.attributes) {
    if (there.getAttribute(name) !== value) there.setAttribute(name, value);
  }
  let next = there.firstChild;
  for (const child of [...wanted.childNodes]) {
    const found = counterpart(next, child);
    if (!found) {
      there.insertBefore(child, next);
      changed.push(child);
      continue;
    }
    while (next !== found) {
      const gone = next;
      next = next.nextSibling;
      gone.remove();
    }
    next = found.nextSibling;
    merge(found, child, changed);
  }
  while (next) {
    const gone = next;
    next = next.nextSibling;
    gone.remove();
  }
};

htmx.defineExtension("merge", {
  handleSwap: (style, target, fragment) => {
    if (style !== "merge") return false;
    const changed = [target];
    merge(target, fragment.querySelector(`[id="${target.id}"]`), changed);
    return changed;
  },
});
