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
  return [...new Set(faults)];
};
