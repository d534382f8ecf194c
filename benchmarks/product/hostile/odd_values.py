"""Attacks by values that nothing can hold: huge numbers, ids of 5,000 digits, NUL characters."""

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, Final

import httpx

from benchmarks.product.hostile.target import Target

HUGE, LONG_ID, NUL = 2**64, "9" * 5000, "a\0b"
AT_ONCE: Final = 2
POLL_S: Final = 0.2
ENDED: Final = ("completed", "failed", "cancelled", "expired")
NUMBERS: Final[Mapping[str, Any]] = {
    "top_k": HUGE,
    "seed": HUGE,
    "max_tokens": HUGE,
    "n": HUGE,
    "temperature": HUGE,
    "min_p": -HUGE,
    "repetition_penalty": HUGE,
}
"""Fields of a chat. JSON knows no bounds of numbers."""
ADDRESSES: Final = (
    "/api/v1/datasets/{id}",
    "/api/v1/corpora/{id}/fit?root=minilm",
    "/api/v1/versions/{id}",
    "/api/v1/domains/{id}",
    "/api/v1/tree?after={id}",
    "/api/v1/models/{hplm}/versions/{id}",
)
"""Of the API. Numbers in them can be as long as the address."""
PAGES: Final = (
    "data/datasets/{id}/",
    "data/datasets/{dataset}/rows/?after={id}",
    "data/datasets/{dataset}/tokenizer-fit/?root={id}",
    "models/new/?dataset={id}",
    "models/{hplm}/versions/{id}/",
    "tree/domain/{id}/",
    "usage/?period={id}",
    "audit/?before={id}",
    "requests/?before={id}",
    "search/?q=%00",
    "data/?q=%00",
    "jobs/?state=%00",
    "compare/?model=%00&version=%00",
    "playground/?model=%00",
    "api/?model=%00",
    "data/datasets/{dataset}/rows/?q=%00&split=%00",
)
"""Of the tenant."""
FORMS: Final[Mapping[str, Mapping[str, str]]] = {
    "data/datasets/{dataset}/rename/": {"name": NUL},
    "models/{hplm}/update/": {"dataset": LONG_ID},
    "models/new/": {"name": NUL, "dataset": LONG_ID, "parent": LONG_ID},
    "selected/data/delete/": {"chosen": LONG_ID},
    "selected/models/compare/": {"chosen": NUL},
    "webhooks/new/": {"url": f"https://example.org/{NUL}", "kinds": "job.failed"},
    "keys/new/": {"name": NUL, "scopes": "infer", "expiry": LONG_ID},
    "members/invite/": {"email": f"{NUL}@example.org", "role": "viewer"},
    "playground/send/": {"model": NUL, "text": NUL},
}


def odd_values(target: Target, until: float) -> Counter[str]:
    """Each of them once. Counts as ``lost lines``: good lines of a batch that got no answer because another
    line has a huge number."""
    with target.http() as http, target.writing().http() as chats, closing(target.signed_in()) as person:
        found = _batch(chats, target.writing(), until)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = pool.map(lambda call: call(), _calls(target, http, chats, person))
            return found + Counter(f"answered {answer}" for answer in answers)


def _calls(
    target: Target, http: httpx.Client, chats: httpx.Client, person: httpx.Client
) -> list[Callable[[], str]]:
    """Every request, as a function that returns the status of its answer; of an internal error, with the
    address."""

    def call(client: httpx.Client, method: str, path: str, **content: Any) -> Callable[[], str]:
        filled = path.format(id=LONG_ID, hplm=target.hplm, dataset=target.dataset_id)

        def send() -> str:
            try:
                answer = client.request(method, filled, **content)
            except httpx.HTTPError as error:
                return type(error).__name__
            is_internal = answer.status_code == httpx.codes.INTERNAL_SERVER_ERROR
            return f"500 {method} {path}" if is_internal else str(answer.status_code)

        return send

    pages = f"/t/{target.tenant}/"
    model = target.writing().hplm
    said = {"model": model, "messages": [{"role": "user", "content": "a text"}], "max_tokens": 4}
    text = {"model": model, "prompt": "a text", "max_tokens": 4}
    infer = {"model": target.hplm, "inputs": ["a text"]}
    return [
        *(call(chats, "POST", "/v1/chat/completions", json=said | {n: v}) for n, v in NUMBERS.items()),
        *(call(chats, "POST", "/v1/completions", json=text | {n: v}) for n, v in NUMBERS.items()),
        call(http, "POST", "/api/v1/infer", json=infer | {"timeout_s": HUGE}),
        call(http, "POST", "/api/v1/infer", json=infer | {"model": NUL}),
        *(call(http, "GET", path) for path in ADDRESSES),
        call(http, "POST", "/api/v1/models", json={"name": "odd", "dataset": HUGE, "parent": HUGE}),
        call(http, "POST", "/api/v1/webhooks", json={"url": NUL, "kinds": [NUL]}),
        call(http, "PATCH", f"/api/v1/models/{target.hplm}", json={"description": NUL}),
        *(call(person, "GET", pages + path) for path in PAGES),
        *(call(person, "POST", pages + path, data=dict(form)) for path, form in FORMS.items()),
        call(person, "POST", "/login/", data={"login": NUL, "password": NUL}),
    ]


def _batch(http: httpx.Client, writer: Target, until: float) -> Counter[str]:
    """A file of two chats of which one has a huge number: the other one is to be answered."""
    said = {"model": writer.hplm, "messages": [{"role": "user", "content": "a text"}], "max_tokens": 4}
    bodies = (said, said | {"top_k": HUGE})
    lines = [
        {"custom_id": str(number), "method": "POST", "url": "/v1/chat/completions", "body": body}
        for number, body in enumerate(bodies)
    ]
    content = "\n".join(map(json.dumps, lines)).encode()
    file = {"file": (f"{writer.mark}-odd.jsonl", content)}
    sent = http.post("/v1/files", data={"purpose": "batch"}, files=file)
    wanted = {
        "input_file_id": sent.json()["id"],
        "endpoint": "/v1/chat/completions",
        "completion_window": "24h",
    }
    made = http.post("/v1/batches", json=wanted)
    if made.is_error:
        return Counter({f"batch answered {made.status_code}": 1})
    batch = made.json()
    latest = until + 30.0
    while batch["status"] not in ENDED and time.monotonic() < latest:
        time.sleep(POLL_S)
        batch = http.get(f"/v1/batches/{batch['id']}").json()
    answered = batch["request_counts"]["completed"] if batch["status"] in ENDED else 0
    return Counter({f"batch {batch['status']}": 1, "lost lines": 1 - answered})
