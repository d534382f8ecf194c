// What holds for every page and can be seen from within it. Returns the faults, one line each.

() => {
  const faults = [];
  const count = (selector) => document.querySelectorAll(selector).length;
  const called = (element) => `<${element.localName}> ${element.textContent.trim().slice(0, 60)}`;

  if (count("h1") !== 1) faults.push(`has ${count("h1")} headings of the first level`);
  if (count("main") !== 1) faults.push(`has ${count("main")} main landmarks`);
  if (!document.documentElement.lang) faults.push("does not say its language");
  if (!document.querySelector("h1")?.textContent.trim()) faults.push("its heading is empty");
  if (count("nav") && !document.querySelector("main.centred")) {
    const first = document.querySelector("body a, body button");
    if (!first?.matches(".skip-link")) faults.push("has no link past its navigation");
  }
  const twice = [...document.querySelectorAll("[id]")].filter(({ id }) => count(`#${CSS.escape(id)}`) > 1);
  for (const element of twice) faults.push(`the id ${element.id} is there more than once`);

  // A cell that turns with its words turns its padding, too, and leaves the column.
  for (const cell of document.querySelectorAll(":is(td, th)[dir]")) faults.push(`turns a cell: ${called(cell)}`);

  // Words must stay in the box that they stand in, unless that box scrolls.
  const boxes = ".panel, .tile, .notice, .button, button, .badge, .node-box, .card, td, th, .page, .side, .upload-line";
  const scrolls = (element) => ["auto", "scroll", "hidden"].includes(getComputedStyle(element).overflowX);
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || element.closest("script, style, svg, option, .visually-hidden")) continue;
    if (!element.checkVisibility()) continue;
    const box = element.closest(boxes);
    if (!box) continue;
    let between = element;
    while (between !== box && !scrolls(between)) between = between.parentElement;
    if (scrolls(between)) continue;
    range.selectNodeContents(walker.currentNode);
    const { left, right } = range.getBoundingClientRect();
    const frame = box.getBoundingClientRect();
    if (right > frame.right + 1 || left < frame.left - 1) {
      faults.push(`words leave <${box.localName} class="${box.className}">: ${called(element)}`);
    }
  }

  // Words must not lie over other words. What is cut off is not seen, and lines may touch.
  const seen = new Map();
  const shown = (element) => {
    if (!element) return { left: -Infinity, top: -Infinity, right: Infinity, bottom: Infinity };
    if (!seen.has(element)) seen.set(element, cut(element.getBoundingClientRect(), element, shown(element.parentElement)));
    return seen.get(element);
  };
  const cut = (box, element, within) =>
    getComputedStyle(element).overflow === "visible" ? within : common(box, within);
  const common = (one, other) => ({
    left: Math.max(one.left, other.left),
    top: Math.max(one.top, other.top),
    right: Math.min(one.right, other.right),
    bottom: Math.min(one.bottom, other.bottom),
  });
  const lies = [];
  walker.currentNode = document.body;
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || element.closest("script, style, svg, option, .visually-hidden")) continue;
    if (!element.checkVisibility() || element.closest("[popover], .skip-link")) continue;
    range.selectNodeContents(walker.currentNode);
    for (const line of range.getClientRects()) {
      const third = line.height / 3;
      const { left, top, right, bottom } = common(line, shown(element));
      if (right - left > 4) lies.push({ element, left: left + 2, top: top + third, right: right - 2, bottom: bottom - third });
    }
  }
  lies.sort((one, other) => one.top - other.top);
  lies.forEach((one, at) => {
    for (const other of lies.slice(at + 1)) {
      if (other.top >= one.bottom) break;
      const over = one.left < other.right && other.left < one.right && other.top < other.bottom;
      if (over && one.element !== other.element) faults.push(`words lie over others: ${called(one.element)}, ${called(other.element)}`);
    }
  });
  return [...new Set(faults)];
};
