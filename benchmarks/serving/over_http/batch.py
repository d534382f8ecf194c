"""A batch by the API, and how long it takes."""

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import httpx

from benchmarks.serving.over_http.clients import TIMEOUT_S, Call, NotServed

POLL_S: Final = 0.5


def batch_seconds(http: httpx.Client, asker: Call, lines: Sequence[str]) -> tuple[float, int]:
    """How long the product works at a batch of these lines, from its beginning to its files, and how many
    lines have no answer. Raises NotServed."""
    headers = {"Authorization": f"Bearer {asker.api_key}"}
    sent = {"file": ("inputs.jsonl", "\n".join(lines).encode())}
    made = http.post("/api/v1/batches", headers=headers, data={"model": asker.hplm}, files=sent)
    if made.status_code != httpx.codes.CREATED:
        raise NotServed(made.text)
    latest = time.monotonic() + TIMEOUT_S
    while not (batch := _seen(http, headers, made.json()["id"]))["finished_at"]:
        if time.monotonic() > latest:
            raise NotServed(f"The batch is {batch['state']}: {batch['lines']} lines are answered.")
        time.sleep(POLL_S)
    begun, ended = (datetime.fromisoformat(batch[f"{word}_at"]) for word in ("started", "finished"))
    return (ended - begun).total_seconds(), len(lines) - int(batch["succeeded"])


def _seen(http: httpx.Client, headers: dict[str, str], batch_id: str) -> dict[str, Any]:
    response = http.get(f"/api/v1/batches/{batch_id}", headers=headers)
    response.raise_for_status()
    found: dict[str, Any] = response.json()
    return found
