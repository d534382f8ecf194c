// A job's page follows a stream of nudges; where that fails it asks every few seconds, and says so.

const POLL_MS = 2000;
const PATIENCE_MS = 3000;

document.querySelectorAll("[data-live]").forEach((box) => {
  const words = box.querySelector(".live-mode");
  let polling, doubt;

  const look = () => {
    const part = document.getElementById("job");
    if (part.hasAttribute("hx-get")) htmx.trigger(part, "look");
    else enter("ended");
  };

  const enter = (mode) => {
    clearTimeout(doubt);
    clearInterval(polling);
    doubt = polling = undefined;
    if (mode === "polling") polling = setInterval(look, POLL_MS);
    if (box.dataset.mode === mode) return;
    box.dataset.mode = mode;
    words.textContent = words.dataset[mode];
    if (mode === "polling") look();
  };

  // A stream that ends by itself is opened again within a second: only a longer silence is worth a word.
  const wonder = () => {
    if (!polling && !doubt) doubt = setTimeout(enter, PATIENCE_MS, "polling");
  };

  box.addEventListener("htmx:sseOpen", () => enter("streaming"));
  box.addEventListener("htmx:sseError", ({ detail }) => {
    if (polling) return;
    if (detail.source.readyState === EventSource.CLOSED) enter("polling");
    else wonder();
  });
  box.addEventListener("htmx:sseClose", () => enter("ended"));
  enter("connecting");
  wonder();
});
