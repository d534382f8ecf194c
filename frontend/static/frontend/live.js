// The page of a job follows an event stream. If that fails, it polls, and says so.

const POLL_MS = 2000;
const RECONNECT_MS = 3000;

document.querySelectorAll("[data-live]").forEach((box) => {
  const status = box.querySelector(".live-mode");
  let polling, reconnecting;

  const refresh = () => {
    const part = document.getElementById("job");
    if (part.hasAttribute("data-active")) htmx.trigger(part, "refresh");
    else setMode("ended");
  };

  const setMode = (mode) => {
    clearTimeout(reconnecting);
    clearInterval(polling);
    reconnecting = polling = undefined;
    if (mode === "polling") polling = setInterval(refresh, POLL_MS);
    if (box.dataset.mode === mode) return;
    box.dataset.mode = mode;
    status.textContent = status.dataset[mode];
    if (mode === "polling") refresh();
  };

  // The browser reopens a stream within a second. Poll only if that takes longer.
  const awaitReconnect = () => {
    if (!polling && !reconnecting) reconnecting = setTimeout(setMode, RECONNECT_MS, "polling");
  };

  box.addEventListener("htmx:sseOpen", () => setMode("streaming"));
  box.addEventListener("htmx:sseError", ({ detail }) => {
    if (polling) return;
    if (detail.source.readyState === EventSource.CLOSED) setMode("polling");
    else awaitReconnect();
  });
  box.addEventListener("htmx:sseClose", () => setMode("ended"));
  setMode("connecting");
  awaitReconnect();
});
