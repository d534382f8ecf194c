// Scripts of all pages: Ctrl+Enter, suggestions, search, outdated previews, one-time pages, theme, dropped
// files, keyboard scrolling, popovers loaded by htmx, polling that keeps a selection, and failed requests.

document.addEventListener("input", (event) => {
  const ids = event.target.dataset.clears ?? event.target.form?.dataset.clears ?? "";
  for (const id of ids.split(" ")) document.getElementById(id)?.replaceChildren();
});

// A page that shows a secret once is the response to a form. A reload must not submit the form again.
const once = document.querySelector("[data-once]");
if (once) history.replaceState(null, "", once.dataset.once);

// Ctrl+Enter in a text sends the form.
document.addEventListener("keydown", (event) => {
  const form = event.target.closest?.("form[data-submit-key] textarea")?.form;
  if (!form || event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  form.requestSubmit(form.querySelector("button.primary"));
});

// A suggestion that is chosen from the list presses the button beside the field. Typed text does not.
document.addEventListener("input", ({ target, inputType = "insertReplacementText" }) => {
  if (inputType === "insertReplacementText" && target.matches("[data-adds]")) target.parentElement.querySelector("button").click();
});

// Ctrl+K opens the search. The arrows go through what it found, Enter opens the first.
document.addEventListener("keydown", (event) => {
  const palette = document.getElementById("search");
  if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && palette) {
    event.preventDefault();
    palette.togglePopover();
  }
  if (!event.target.closest?.("#search")) return;
  const stops = [...palette.querySelectorAll("input, a, button")];
  if (event.key === "Enter" && event.target === stops[0]) stops[1]?.click();
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  stops[(stops.indexOf(event.target) + step + stops.length) % stops.length].focus();
});

// The server reads the theme from the cookie, so that no page flashes in the other theme.
document.addEventListener("change", ({ target }) => {
  if (target.name !== "theme") return;
  const age = target.value ? 365 * 24 * 3600 : 0;
  const safely = location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `hmi_theme=${target.value}; Path=/; Max-Age=${age}; SameSite=Lax${safely}`;
  if (target.value) document.documentElement.dataset.theme = target.value;
  else delete document.documentElement.dataset.theme;
});

// The search chooses a theme, too.
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-chooses-theme]");
  if (!button) return;
  const theme = button.dataset.choosesTheme === "system" ? "" : button.dataset.choosesTheme;
  document.querySelector(`[name="theme"][value="${theme}"]`)?.click();
  document.getElementById("search").hidePopover();
});

// A part of a page has an address of its own: a reload, a bookmark or a colleague finds it again.
document.addEventListener("change", ({ target }) => {
  if (target.dataset.address) history.replaceState(history.state, "", target.dataset.address);
});

// A file dropped outside a field must not replace the page and its unsaved form.
for (const kind of ["dragover", "drop"]) {
  document.addEventListener(kind, (event) => {
    if (!event.dataTransfer.types.includes("Files") || event.target.closest?.("input[type=file]")) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "none";
  });
}

// Elements that scroll sideways can be focused by the keyboard, as long as they overflow.
const SCROLLERS = ".scroll, .snippet pre, .prose pre";
const overflowObserver = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  }
});
htmx.onLoad((part) => {
  for (const element of [part, ...part.querySelectorAll(SCROLLERS)]) {
    if (element.matches(SCROLLERS)) overflowObserver.observe(element);
  }
});

// Show a popover when its content has loaded. Pages restored from history have no target.
document.addEventListener("htmx:afterSwap", ({ detail }) => {
  if (detail.target?.matches("[popover]")) detail.target.showPopover();
});

// Elements that poll or follow a stream.
const POLLING = "[hx-trigger*='every'], [hx-trigger*='sse:'], [hx-trigger*='refresh']";

// Do not replace an element while text in it is selected. It is refreshed when the selection ends.
const waiting = new Set();
document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  const element = detail.requestConfig.elt;
  const selection = getSelection();
  if (!element.matches(POLLING) || selection.isCollapsed || !selection.containsNode(detail.target, true)) return;
  detail.shouldSwap = false;
  waiting.add(element);
});
document.addEventListener("selectionchange", () => {
  if (!getSelection().isCollapsed) return;
  for (const part of waiting) htmx.trigger(part, "refresh");
  waiting.clear();
});

// The notice of a request in the background that failed, the newest only. `source` is what asked: its next success takes
// the notice away. `status` is 0 if there was no answer; `retry` sends the request again.
const failure = { notice: null, source: null };

function showFailure({ source, status = 0, requestId = "", retry }) {
  hideFailure();
  const notice = document.getElementById("failed-request").content.cloneNode(true).firstElementChild;
  notice.querySelector("h2").textContent = status ? "Request failed" : "No connection";
  notice.querySelector("p").textContent =
    status >= 500
      ? `The server could not answer (${status}). Try again. If it fails again, give the request ID to your administrator.`
      : status
        ? `The server refused the request (${status}).`
        : "The server cannot be reached. Check your connection, and try again.";
  notice.querySelector("code").textContent = requestId ?? "";
  notice.querySelector("code").parentElement.hidden = !requestId;
  const [again, dismiss] = notice.querySelectorAll("button");
  again.addEventListener("click", () => {
    hideFailure();
    retry();
  });
  dismiss.addEventListener("click", () => hideFailure());
  Object.assign(failure, { notice, source });
  document.body.append(notice);
  notice.showPopover(); // above dialogs and the search
}

// Without a source it hides the notice in any case.
function hideFailure(source = failure.source) {
  if (source !== failure.source) return;
  failure.notice?.remove();
  failure.notice = failure.source = null;
}

const requestIdOf = (headers) => headers.get("X-Request-Id");

let leaving = false; // requests end with their page
addEventListener("pagehide", () => (leaving = true));
addEventListener("pageshow", () => (leaving = false));

function showFailureOfHtmx({ elt, xhr, requestConfig: { verb, path, target, triggeringEvent } }) {
  if (leaving) return;
  showFailure({
    source: elt,
    status: xhr.status,
    requestId: xhr.getResponseHeader("X-Request-Id"),
    retry: () => htmx.ajax(verb, path, { source: elt, target, event: triggeringEvent }).catch(() => {}), // told by its event
  });
}

// The object is gone or forbidden: reload, so that the page says why.
document.addEventListener("htmx:responseError", ({ detail }) => {
  const gone = [403, 404].includes(detail.xhr.status);
  if (gone && detail.elt.matches(POLLING)) location.replace(location.pathname + location.search);
  else showFailureOfHtmx(detail);
});
for (const kind of ["htmx:sendError", "htmx:timeout"]) {
  document.addEventListener(kind, ({ detail }) => showFailureOfHtmx(detail));
}
document.addEventListener("htmx:afterRequest", ({ detail }) => detail.successful && hideFailure(detail.elt));
