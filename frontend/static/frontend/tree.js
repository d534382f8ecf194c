// Drag the drawing of the tree with the mouse. With the keyboard, it scrolls without a script.

const NOT_DRAGGABLE = "a, button, .node-box, .pages";

document.addEventListener("pointerdown", (event) => {
  const canvas = event.target.closest(".canvas");
  if (!canvas || event.pointerType !== "mouse" || event.button !== 0 || event.target.closest(NOT_DRAGGABLE)) return;
  const { left, top } = canvas.getBoundingClientRect();
  if (event.clientX - left >= canvas.clientWidth || event.clientY - top >= canvas.clientHeight) return; // scroll bars
  const from = { x: event.clientX + canvas.scrollLeft, y: event.clientY + canvas.scrollTop };
  const move = ({ clientX, clientY }) => canvas.scrollTo(from.x - clientX, from.y - clientY);
  const drop = () => {
    canvas.classList.remove("held");
    canvas.removeEventListener("pointermove", move);
  };
  canvas.setPointerCapture(event.pointerId);
  canvas.classList.add("held");
  canvas.addEventListener("pointermove", move);
  canvas.addEventListener("lostpointercapture", drop, { once: true });
});
