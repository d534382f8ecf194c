// Notes which elements are reached by the Tab key, and whether it shows. Installs `window.keyboard`:
// `wanted()` is how many there are to reach, `done()` whether all were, `faults()` says what was not right.

() => {
  const SELECTOR = "a[href], button, input, select, textarea, summary, [tabindex]";
  const reached = new Map();

  const key = (element) =>
    [
      element.localName,
      element.type === "radio" ? element.name : element.id || element.name || element.getAttribute("href"),
      (element.getAttribute("aria-label") ?? element.textContent).trim().replace(/\s+/g, " ").slice(0, 50),
    ].join(" ");

  const wanted = () =>
    [...document.querySelectorAll(SELECTOR)].filter(
      (element) => element.tabIndex >= 0 && !element.disabled && element.type !== "hidden" && element.checkVisibility({ visibilityProperty: true }),
    );

  // An element that is drawn by another, as a radio button by its label's words, is marked on that.
  const marked = (element) =>
    [element, getComputedStyle(element).opacity === "0" ? element.nextElementSibling : null].some((one) => {
      if (!one) return false;
      const { outlineStyle, outlineWidth } = getComputedStyle(one);
      return outlineStyle !== "none" && parseFloat(outlineWidth) >= 1;
    });

  const seen = (element) => {
    const { width, height, bottom, right } = element.getBoundingClientRect();
    return (width > 1 && height > 1 && bottom > 0 && right > 0) || getComputedStyle(element).opacity === "0";
  };

  document.addEventListener("focusin", ({ target }) => {
    const fault = !marked(target) ? "shows no focus" : !seen(target) ? "has the focus where nobody sees it" : "";
    reached.set(key(target), fault);
  });

  window.keyboard = {
    wanted: () => wanted().length,
    done: () => wanted().every((one) => reached.has(key(one))),
    faults: () => [
      ...[...new Set(wanted().map(key))].filter((one) => !reached.has(one)).map((one) => `not reached by Tab: ${one}`),
      ...[...reached].filter(([, fault]) => fault).map(([one, fault]) => `${fault}: ${one}`),
    ],
  };
};
