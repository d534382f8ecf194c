// Upload files in pieces as soon as they are chosen, by the tus protocol. Uploads resume after a lost connection, a
// restart of the server, or when the same file is chosen again after a reload.

const PIECE_BYTES = 8 * 1024 * 1024;
// The server's `tail_sha256` is the digest of the last bytes that arrived, at most so many.
const TAIL_BYTES = 1024 * 1024;
const MAX_RETRY_MS = 15_000;
const SPLITS = { train: /train/i, dev: /dev|valid/i, test: /test/i };

const base64 = (text) => btoa(String.fromCharCode(...new TextEncoder().encode(text)));
const hex = (buffer) => [...new Uint8Array(buffer)].map((byte) => byte.toString(16).padStart(2, "0")).join("");

class Refused extends Error {}

// Format bytes per second and seconds left: 2.4 MB/s, 2 min left.
const pace = (speed, left) => {
  const time = left < 60 ? `${Math.ceil(left)} s` : left < 5400 ? `${Math.round(left / 60)} min` : `${(left / 3600).toFixed(1)} h`;
  return `${(speed / 1e6).toFixed(1)} MB/s, ${time} left`;
};

class FileUpload {
  #stopped = new AbortController();

  constructor(file, url, token, show) {
    Object.assign(this, { file, url, token, show });
    this.fingerprint = `${file.size}-${file.lastModified}`;
  }

  // Upload the file and return the id of the upload. Throws Refused.
  async run() {
    let place = await this.#retry(() => this.#findOrCreate());
    for (;;) {
      const offset = await this.#retry(() => this.#offset(place));
      if (offset === null) place = await this.#retry(() => this.#create());
      else if (offset >= this.file.size && this.file.size) break;
      else if (!this.file.size || (await this.#retry(() => this.#send(place, offset)))) break;
    }
    return place.split("/").pop();
  }

  stop() {
    this.#stopped.abort();
    hideFailure(this);
  }

  // Retry with growing delays, and at once when the browser is online again.
  async #retry(act) {
    for (let wait = 500; ; wait = Math.min(wait * 2, MAX_RETRY_MS)) {
      try {
        const found = await act();
        hideFailure(this);
        return found;
      } catch (fault) {
        if (fault instanceof Refused || this.#stopped.signal.aborted) throw fault;
        this.show("waiting");
        await new Promise((go) => {
          setTimeout(go, wait);
          addEventListener("online", go, { once: true });
          const { status, requestId } = fault;
          showFailure({ source: this, status, requestId, retry: go });
        });
      }
    }
  }

  async #request(method, place, headers = {}, body = undefined) {
    const answer = await fetch(place, {
      method,
      body,
      headers: { "Tus-Resumable": "1.0.0", "X-CSRFToken": this.token, ...headers },
      signal: this.#stopped.signal,
    });
    if (answer.ok || [404, 409].includes(answer.status)) return answer;
    // A 429 with Retry-After is temporary: too many pieces are being uploaded.
    const later = answer.status === 429 && answer.headers.has("Retry-After");
    if (answer.status >= 500 || answer.status === 423 || later) {
      const { status, headers } = answer;
      throw Object.assign(new Error(answer.statusText), { status, requestId: requestIdOf(headers) });
    }
    const refusal = await answer.json().catch(() => null);
    throw new Refused(refusal?.error?.message ?? answer.statusText);
  }

  // Return the path of an earlier upload of this file, otherwise of a new one.
  async #findOrCreate() {
    const { results } = await (await this.#request("GET", `${this.url}?limit=500`)).json();
    for (const { id, filename, fingerprint } of results) {
      if (filename !== this.file.name || fingerprint !== this.fingerprint) continue;
      const place = `${this.url}/${id}`;
      const answer = await this.#request("GET", place);
      if (!answer.ok) continue;
      const { offset, tail_sha256: stored } = await answer.json();
      if ((await this.#tailDigest(offset)) === stored) return place;
      // The file changed since a part of it was sent.
      if (offset < this.file.size) await this.#request("DELETE", place);
    }
    return this.#create();
  }

  async #create() {
    const metadata = { filename: this.file.name, fingerprint: this.fingerprint };
    const pairs = Object.entries(metadata).map(([key, value]) => `${key} ${base64(value)}`);
    const answer = await this.#request("POST", this.url, {
      "Upload-Length": this.file.size,
      "Upload-Metadata": pairs.join(","),
    });
    if (answer.status !== 201) throw new Refused("The upload could not be created. Reload the page.");
    return new URL(answer.headers.get("Location")).pathname;
  }

  async #offset(place) {
    const answer = await this.#request("HEAD", place);
    return answer.ok ? Number(answer.headers.get("Upload-Offset")) : null;
  }

  // Send the next piece. Return whether it was the last.
  async #send(place, offset) {
    const end = Math.min(offset + PIECE_BYTES, this.file.size);
    const piece = await this.#read(offset, end);
    this.show("going", offset / this.file.size);
    const answer = await this.#request(
      "PATCH",
      place,
      { "Content-Type": "application/offset+octet-stream", "Upload-Offset": offset },
      piece,
    );
    if (!answer.ok) return false; // another tab has sent more, or the upload is gone: read the offset again
    this.show("going", end / this.file.size);
    return end === this.file.size;
  }

  // Return the digest of the last bytes before `end`, as the server gives it. Browsers compute digests on HTTPS and
  // localhost only. Elsewhere it is null, which equals no digest, so the file is uploaded anew.
  async #tailDigest(end) {
    if (!crypto.subtle) return null;
    return hex(await crypto.subtle.digest("SHA-256", await this.#read(Math.max(0, end - TAIL_BYTES), end)));
  }

  async #read(from, end) {
    try {
      return await this.file.slice(from, end).arrayBuffer();
    } catch {
      throw new Refused("The file was changed or moved. Choose it again.");
    }
  }
}

// A file field of the form, with its hidden field for the upload id and its progress line.
class Field {
  #running = null;
  #since = null;

  constructor(input, form) {
    this.input = input;
    this.form = form;
    this.id = form.elements[`${input.name}_upload`];
    this.line = document.createElement("div");
    this.line.className = "upload-line";
    this.line.hidden = true;
    this.line.innerHTML =
      '<span class="upload-name"></span><progress max="1" value="0"></progress>' +
      '<span class="upload-state small muted" role="status"></span><button type="button" class="link">Remove</button>';
    this.line.querySelector("button").addEventListener("click", () => this.clear());
    input.after(this.line);
    if (this.id.value) this.#restore();
  }

  async take(file) {
    this.#running?.stop();
    const { uploads } = this.form.dataset;
    const token = this.form.elements.csrfmiddlewaretoken.value;
    const upload = new FileUpload(file, uploads, token, (state, share) => this.#show(state, share));
    this.#running = upload;
    this.id.value = "";
    this.#name(file.name);
    offerName(this.form, file.name);
    this.#show("going", 0);
    this.#since = null;
    // The form must not send the file again.
    this.input.disabled = true;
    this.input.hidden = true;
    try {
      const id = await upload.run();
      if (this.#running !== upload) return;
      this.id.value = id;
      this.#show("done", 1);
      this.#running = null;
      check(this.form);
    } catch (fault) {
      if (this.#running !== upload) return;
      this.#show("refused", 0, fault.message);
    }
    this.#running = null;
    ready(this.form);
  }

  clear() {
    this.#running?.stop();
    this.#running = null;
    this.id.value = "";
    this.line.hidden = true;
    this.input.disabled = this.input.hidden = false;
    this.input.value = "";
    this.input.dispatchEvent(new Event("input", { bubbles: true }));
    this.input.focus();
    ready(this.form);
  }

  get busy() {
    return this.#running !== null;
  }

  // The form came back from the server with an earlier upload.
  async #restore() {
    this.input.disabled = this.input.hidden = true;
    this.#name("Uploaded file");
    this.#show("done", 1);
    const answer = await fetch(`${this.form.dataset.uploads}/${this.id.value}`).catch(() => null);
    if (answer?.ok) this.#name((await answer.json()).filename);
    else if (answer && answer.status < 500) this.clear();
    else {
      const requestId = answer && requestIdOf(answer.headers);
      showFailure({ source: this, status: answer?.status, requestId, retry: () => this.#restore() });
    }
  }

  #name(name) {
    this.line.hidden = false;
    this.line.querySelector(".upload-name").textContent = name;
    this.line.querySelector("progress").setAttribute("aria-label", `Upload of ${name}`);
  }

  #show(state, share, why = "") {
    const said = {
      going: `${Math.floor((share ?? 0) * 100)}%${state === "going" ? this.#pace(share) : ""}`,
      waiting: "Connection lost. Retrying…",
      done: "Uploaded",
      refused: why,
    };
    if (state !== "going") this.#since = null;
    this.line.dataset.state = state;
    this.line.querySelector(".upload-state").textContent = said[state];
    const bar = this.line.querySelector("progress");
    if (share !== undefined) bar.value = share;
    bar.hidden = state === "done" || state === "refused";
    ready(this.form);
  }

  // Return the speed since the upload started or resumed, when a piece has arrived.
  #pace(share) {
    const sent = share * (this.#running?.file.size ?? 0);
    const now = performance.now();
    this.#since ??= { now, sent };
    const speed = (1000 * (sent - this.#since.sent)) / (now - this.#since.now);
    return speed > 0 && Number.isFinite(speed) && share < 1 ? `, ${pace(speed, (sent / share - sent) / speed)}` : "";
  }
}

// Disable buttons that need the files until they are uploaded.
function ready(form) {
  const busy = fields.some((field) => field.form === form && field.busy);
  for (const button of document.querySelectorAll("[data-needs-uploads]")) button.disabled = busy;
}

// Check the files once all that were chosen are uploaded and the form is complete.
function check(form) {
  if (fields.some((field) => field.form === form && field.busy) || !form.checkValidity()) return;
  ready(form);
  form.querySelector("[data-needs-uploads]").click();
}

// Fill in an empty name from the name of a file, unless that says only which split it is.
function offerName({ elements: { name } }, filename) {
  if (name.value || Object.values(SPLITS).some((split) => split.test(filename))) return;
  name.value = filename.replace(/\.\w+$/, "").slice(0, name.maxLength);
}

// Assign files to fields by their names, unless one file was dropped on a field. Others go to that field, or to the
// first one.
function spread(files, onto) {
  for (const file of files) {
    const split = Object.keys(SPLITS).find((name) => SPLITS[name].test(file.name));
    const named = files.length > 1 || !onto ? fields.find((field) => field.input.name === split) : null;
    (named ?? onto ?? fields[0]).take(file);
  }
}

// The constructor of a field reads the fields before it, so they are added one by one.
const fields = [];
for (const input of document.querySelectorAll("form[data-uploads] input[type=file]")) {
  fields.push(new Field(input, input.form));
}
const fieldOf = (target) => fields.find((field) => field.input.closest(".field").contains(target));

for (const field of fields) {
  field.input.addEventListener("change", () => field.input.files.length && field.take(field.input.files[0]));
}
// Highlight the field that would receive a dragged file: a file may be dropped anywhere on the page.
function highlight(field) {
  for (const one of fields) one.input.closest(".field").classList.toggle("over", one === field);
}
document.addEventListener("dragover", (event) => {
  if (!fields.length || !event.dataTransfer.types.includes("Files")) return;
  event.preventDefault();
  event.dataTransfer.dropEffect = "copy";
  highlight(fieldOf(event.target) ?? fields[0]);
});
document.addEventListener("dragleave", (event) => event.relatedTarget || highlight());
document.addEventListener("drop", (event) => {
  highlight();
  if (!fields.length || !event.dataTransfer.files.length) return;
  event.preventDefault();
  spread([...event.dataTransfer.files], fieldOf(event.target));
  fields[0].input.dispatchEvent(new Event("input", { bubbles: true }));
});

// A button of a refused check: it ticks an option and checks again.
document.addEventListener("click", ({ target }) => {
  if (!target.matches("[data-checks]")) return;
  const form = document.querySelector("form[data-uploads]");
  const button = form.querySelector("[data-needs-uploads]");
  form.elements[target.dataset.checks].checked = true;
  // A check that is running has disabled the button.
  if (button.disabled) button.addEventListener("htmx:afterRequest", () => button.click(), { once: true });
  else button.click();
});

// Show the result of a check, or the columns that it asks for. Somebody who is typing keeps the focus.
document.addEventListener("htmx:afterSettle", ({ detail: { target } }) => {
  if (target.id !== "preview" || !target.firstElementChild) return;
  const asked = document.getElementById(target.querySelector("[data-asks]")?.dataset.asks);
  if (!document.activeElement.matches("input, textarea, select")) (asked?.querySelector("select") ?? target).focus({ preventScroll: true });
  (asked ?? target).scrollIntoView({ block: asked ? "center" : "start" });
});
