"""Asking models."""

from collections.abc import Mapping, Sequence
from typing import Any

from hmi_client.flow import Flow
from hmi_client.requests import post
from hmi_client.responses import Answer, from_json

TIMEOUT_S = 5.0
"""How much longer than the deadline the client waits for the answer."""


def infer(
    model: str,
    inputs: Sequence[str | Mapping[str, str]],
    *,
    timeout_s: float | None = None,
    explain: bool = False,
    idempotency_key: str | None = None,
) -> Flow[Answer]:
    """What a model says to each input: a text, or the object that its task takes.

    ``model`` is ``model``, ``tenant/model``, ``tenant/model@alias`` or ``tenant/model:version``. ``explain``
    has each result say how its tokens were made.
    """
    body: dict[str, Any] = {"model": model, "inputs": list(inputs)}
    if timeout_s is not None:
        body["timeout_s"] = timeout_s
    if explain:
        body["explain"] = True
    wait = None if timeout_s is None else timeout_s + TIMEOUT_S
    return from_json(Answer, (yield from post("infer", body, key=idempotency_key, timeout_s=wait)))
