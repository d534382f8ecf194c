"""Inference."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from hmi_client.flow import Flow, as_list, post
from hmi_client.responses import Answer, from_json

Quality = Literal["fast", "balanced", "exact"]
TIMEOUT_MARGIN_S = 5.0
"""The client waits this much longer than the deadline, so that the server's own error arrives."""


def infer(
    model: str,
    inputs: str | Mapping[str, str] | Sequence[str | Mapping[str, str]],
    *,
    timeout_s: float | None = None,
    quality: Quality | None = None,
    target: float | None = None,
    explain: bool = False,
    idempotency_key: str | None = None,
) -> Flow[Answer]:
    """Run a model on inputs: texts, or objects with the fields of the model's task. One needs no list.

    ``model`` is ``model``, ``tenant/model``, ``tenant/model@alias`` or ``tenant/model:version``. With
    ``explain``, each result says how each of its tokens was computed. ``quality``: ``"fast"`` answers from
    the tables, ``"exact"`` computes each text in full, ``"balanced"`` computes those that the tables are not
    sure of; the default is that of the version or the server. ``target``, with ``"balanced"``: the model's
    metric on its dev split that is to be reached at the least cost, 0 to 1.
    """
    body: dict[str, Any] = {"model": model, "inputs": as_list(inputs)}
    if timeout_s is not None:
        body["timeout_s"] = timeout_s
    if quality is not None:
        body["quality"] = quality
    if target is not None:
        body["target"] = target
    if explain:
        body["explain"] = True
    client_timeout_s = None if timeout_s is None else timeout_s + TIMEOUT_MARGIN_S
    response = yield from post("infer", body, idempotency_key=idempotency_key, timeout_s=client_timeout_s)
    return from_json(Answer, response)
