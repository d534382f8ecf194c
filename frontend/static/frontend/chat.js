// Chats with generative models. A message goes to all models of the page. Their answers come as server-sent events.

const FINISHED = { stop: "finished", length: "max tokens reached" };
const LOST = { code: "connection_lost", message: "The connection was lost before the answer was finished. Send it again." };
const FAULT = { code: "page_error", message: "This page could not show the answer. Reload it, and send the message again." };

let running; // the AbortController of the answers that are being written

const byId = (id) => document.getElementById(id);
const filled = (id) => byId(id).content.cloneNode(true).firstElementChild;

const showRunning = () => {
  const hadFocus = byId("stop-answers").matches(":focus");
  byId("send-message").disabled = Boolean(running);
  byId("stop-answers").hidden = !running;
  if (hadFocus && !running) byId("id_text").focus();
};

// What fetch and a body's reader reject with is the network's fault, or the user's who stopped the answer.
const overNetwork = (promise) =>
  promise.catch(() => {
    throw LOST;
  });

async function* dataOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await overNetwork(reader.read());
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) if (event.startsWith("data: ")) yield event.slice("data: ".length);
  }
}

const isServersFault = ({ code }, response) => code === LOST.code || response?.status >= 500;

const errorOf = async (response) => {
  const body = await response.json().catch(() => null);
  return body?.error ?? { code: response.status, message: "The server returned an unexpected response." };
};

// What the API is asked: the settings, and the message after those that were answered, or the prompt.
const requestOf = (form, column, text) => {
  const request = { model: column.dataset.model, stream: true };
  request.stream_options = { include_usage: true, continuous_usage_stats: true };
  for (const { name, value } of form.querySelectorAll("[type=number]")) if (value) request[name] = Number(value);
  const system = form.elements.system;
  if (!system) return { ...request, prompt: text };
  const answered = [...column.querySelectorAll(".turn[data-answered]")].flatMap((turn) => [
    { role: "user", content: turn.querySelector(".said span:last-child").textContent },
    { role: "assistant", content: turn.querySelector(".written").textContent },
  ]);
  const first = system.value ? [{ role: "system", content: system.value }] : [];
  return { ...request, messages: [...first, ...answered, { role: "user", content: text }] };
};

const addTurn = (column, text) => {
  const turn = filled("turn");
  turn.querySelector(".said span:last-child").textContent = text;
  column.querySelector(".turns").append(turn);
  return turn;
};

// The figures below an answer. Speed is that after the first tokens: before them, the prompt is read.
class Figures {
  tokens = 0;

  constructor(line) {
    this.line = line;
    this.asked = performance.now();
    line.textContent = "Waiting…";
  }

  count(tokens) {
    if (tokens === this.tokens) return;
    this.tokens = tokens;
    this.last = performance.now();
    if (!this.first) [this.first, this.firstTokens] = [this.last, tokens];
    this.show();
  }

  show(ending) {
    const parts = this.tokens ? [`${this.tokens} ${this.tokens === 1 ? "token" : "tokens"}`] : [];
    if (this.last > this.first) {
      parts.push(`${((1000 * (this.tokens - this.firstTokens)) / (this.last - this.first)).toFixed(1)} tokens/s`);
    }
    if (this.first) parts.push(`first after ${((this.first - this.asked) / 1000).toFixed(2)} s`);
    this.line.textContent = [...parts, ...(ending ? [ending] : [])].join(" · ");
  }
}

const write = async (response, turn, figures, scroll) => {
  const text = turn.querySelector(".written").appendChild(new Text());
  let ending;
  for await (const data of dataOf(response)) {
    if (data === "[DONE]") return ending;
    const { choices, usage, error } = JSON.parse(data);
    if (error) throw error;
    if (usage) figures.count(usage.completion_tokens);
    for (const { delta, text: added, finish_reason: reason } of choices) {
      text.appendData(delta?.content ?? added ?? "");
      if (reason) ending = FINISHED[reason] ?? reason;
    }
    scroll();
  }
  throw LOST;
};

const ask = async (form, column, text, signal) => {
  const body = JSON.stringify(requestOf(form, column, text));
  const log = column.querySelector("[role=log]");
  const turn = addTurn(column, text);
  const figures = new Figures(turn.querySelector(".figures"));
  const scroll = (always) => {
    const below = log.scrollHeight - log.scrollTop - log.clientHeight;
    if (always || below < 80) log.scrollTop = log.scrollHeight;
  };
  log.setAttribute("aria-busy", "true");
  scroll(true);
  let response;
  try {
    const headers = { "Content-Type": "application/json", "X-CSRFToken": form.elements.csrfmiddlewaretoken.value };
    response = await overNetwork(fetch(form.dataset.completions, { method: "POST", headers, body, signal }));
    if (!response.ok) throw await errorOf(response);
    figures.show(await write(response, turn, figures, scroll));
    turn.dataset.answered = "";
    hideFailure(column);
  } catch (error) {
    const isFault = error instanceof Error; // of this script: what the server or the network did has a code
    if (isFault) reportError(error);
    figures.show(signal.aborted ? "stopped" : "failed");
    if (signal.aborted) {
      if (turn.querySelector(".written").textContent) turn.dataset.answered = "";
    } else {
      const { code, message } = isFault ? FAULT : error;
      const notice = filled("refusal");
      notice.querySelector("p").textContent = message;
      notice.querySelector("code").textContent = code;
      turn.append(notice);
      if (!isFault && isServersFault(error, response)) {
        const status = response && !response.ok ? response.status : 0;
        const retry = () => {
          turn.remove();
          askAll(form, [column], text);
        };
        showFailure({ source: column, status, requestId: response && requestIdOf(response.headers), retry });
      }
    }
  }
  log.setAttribute("aria-busy", "false");
  scroll();
};

const askAll = async (form, columns, text) => {
  if (running) return;
  const { signal } = (running = new AbortController());
  showRunning();
  await Promise.all(columns.map((column) => ask(form, column, text, signal)));
  running = undefined;
  showRunning();
};

document.addEventListener("submit", (event) => {
  if (event.submitter?.id !== "send-message") return;
  event.preventDefault();
  if (running) return;
  const form = event.target;
  const field = form.elements.text;
  const text = field.value;
  field.value = "";
  field.focus();
  askAll(form, [...form.querySelectorAll("[data-model]")], text);
});

document.addEventListener("click", ({ target }) => {
  if (target.id === "stop-answers") running?.abort();
  if (target.id !== "clear-chat") return;
  running?.abort();
  for (const turns of document.querySelectorAll(".turns")) turns.replaceChildren();
  byId("id_text").focus();
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.isComposing || !event.target.closest("#ask")) return;
  if (event.target.type === "number") event.preventDefault(); // it would press the first button of the form
  if (event.target.id === "id_text" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    event.target.form.requestSubmit(byId("send-message"));
  }
});

// A field that is not valid must be seen to be corrected.
document.addEventListener("invalid", ({ target }) => target.closest("details")?.setAttribute("open", ""), true);

// The form is replaced when a model is added or removed. Answers that are being written end.
document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  if (detail.target.id === "ask") running?.abort();
});
document.addEventListener("htmx:afterSettle", showRunning);
