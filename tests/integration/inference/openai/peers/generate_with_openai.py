"""The stock client chats, completes, is refused, runs a batch of chats, and makes a model for chat. Prints
what it saw as JSON. Arguments: the address of the product, a key, a file with conversations."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import openai

SMALL = {"epochs": 1, "test_prompts": 2, "new_tokens": 3}
ENDED = {"succeeded", "failed", "cancelled", "completed", "expired"}
LONGEST_S = 600
url, key, rows = sys.argv[1:]
client = openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=2)
strict = openai.OpenAI(base_url=f"{url}/v1", api_key=key, _strict_response_validation=True)
hello: Any = [{"role": "user", "content": "Hello"}]
chat: Any = {"model": "acme/writer", "messages": hello, "max_tokens": 12, "seed": 3}
text: Any = {"model": "acme/writer", "prompt": "Once", "max_tokens": 12, "temperature": 0}


def raised(act: Any) -> list[Any]:
    try:
        act()
    except openai.APIStatusError as error:
        return [type(error).__name__, error.status_code, error.code, error.param]
    return ["nothing"]


def ended(look: Any) -> Any:
    """What it is at its end."""
    until = time.monotonic() + LONGEST_S
    while (found := look()).status not in ENDED and time.monotonic() < until:
        time.sleep(0.1)
    return found


def streamed(deltas: Any) -> list[Any]:
    """The text of a stream, why it ended, and its usage."""
    chunks = list(deltas)
    spoken = [choice for chunk in chunks for choice in chunk.choices]
    parts = [(c.delta.content if hasattr(c, "delta") else c.text) or "" for c in spoken]
    return ["".join(parts), spoken[-1].finish_reason, chunks[-1].usage and chunks[-1].usage.total_tokens]


seen: dict[str, Any] = {"models": [model.id for model in client.models.list()]}
seen["model"] = client.models.retrieve("acme/writer").id

whole = strict.chat.completions.create(**chat, n=2, logprobs=True, top_logprobs=2)
again = client.chat.completions.create(**chat, n=2)
seen["choices"] = [choice.index for choice in whole.choices]
seen["seeded"] = [c.message.content for c in whole.choices] == [c.message.content for c in again.choices]
content = whole.choices[0].logprobs.content if whole.choices[0].logprobs else None
seen["alternatives"] = sorted({len(token.top_logprobs) for token in content or []})
seen["chat_usage"] = whole.usage and whole.usage.total_tokens > whole.usage.prompt_tokens
one = client.chat.completions.create(**chat)
stream = strict.chat.completions.create(**chat, stream=True, stream_options={"include_usage": True})
seen["chat_stream"] = streamed(stream) == [
    one.choices[0].message.content, one.choices[0].finish_reason, one.usage and one.usage.total_tokens
]  # fmt: skip

completion = strict.completions.create(**text, logprobs=1)
found = completion.choices[0]
seen["tokens"] = "".join(found.logprobs.tokens or []) != "" if found.logprobs else None
seen["text_stream"] = streamed(client.completions.create(**text, stream=True))[:2] == [
    found.text, found.finish_reason
]  # fmt: skip
stop = next(sign for sign in found.text[3:] if sign.isascii() and sign.isprintable())
seen["stop"] = client.completions.create(**text, stop=[stop]).choices[0].text == found.text.split(stop)[0]

tool: Any = {"type": "function", "function": {"name": "look", "parameters": {}}}
seen["refused"] = {
    "tools": raised(lambda: client.chat.completions.create(**chat, tools=[tool])),
    "format": raised(lambda: client.chat.completions.create(**chat, response_format={"type": "json_object"})),
    "encoder": raised(lambda: client.chat.completions.create(**{**chat, "model": "acme/mood"})),
}

lines = [
    {"custom_id": name, "method": "POST", "url": "/v1/chat/completions", "body": {**chat, **more}}
    for name, more in {"good": {}, "bad": {"tools": [tool]}}.items()
]
Path("requests.jsonl").write_text("\n".join(map(json.dumps, lines)))
with Path("requests.jsonl").open("rb") as requests:
    asked = client.files.create(file=requests, purpose="batch")
batch = client.batches.create(
    input_file_id=asked.id, endpoint="/v1/chat/completions", completion_window="24h"
)
batch = ended(lambda: client.batches.retrieve(batch.id))
counts = batch.request_counts
seen["batch"] = [batch.status, counts and [counts.completed, counts.failed]]
(answer,) = client.files.content(batch.output_file_id or "").text.splitlines()
body = json.loads(answer)["response"]["body"]
seen["answer"] = body["choices"][0]["message"]["content"] == one.choices[0].message.content
(error,) = client.files.content(batch.error_file_id or "").text.splitlines()
seen["error"] = json.loads(error)["response"]["body"]["error"]["code"]

with Path(rows).open("rb") as conversations:
    file = client.files.create(file=conversations, purpose="fine-tune")
job = client.fine_tuning.jobs.create(
    model="smol", training_file=file.id, suffix="talker", extra_body={"hmi": {"settings": SMALL}}
)
job = ended(lambda: client.fine_tuning.jobs.retrieve(job.id))
seen["job"] = [job.status, job.fine_tuned_model, job.error and job.error.message]
until = time.monotonic() + LONGEST_S
talk = {**chat, "model": job.fine_tuned_model}
while raised(lambda: client.chat.completions.create(**talk)) != ["nothing"] and time.monotonic() < until:
    time.sleep(0.1)
seen["tuned"] = client.chat.completions.create(**talk).model
sys.stdout.write(json.dumps(seen))
