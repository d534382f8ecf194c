"""Inference."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal
from uuid import uuid4

from hmi_client.connection import Connection
from hmi_client.responses import Answer, from_json
from hmi_client.server import as_list, json_of

Quality = Literal["fast", "balanced", "exact"]
TIMEOUT_MARGIN_S = 5.0
"""The client waits this much longer than the deadline, so that the server's own error arrives."""


class InferMethods(Connection):
    """Inference."""

    def infer(
        self,
        model: str,
        inputs: str | Mapping[str, str] | Sequence[str | Mapping[str, str]],
        *,
        timeout_s: float | None = None,
        quality: Quality | None = None,
        target: float | None = None,
        explain: bool = False,
        idempotency_key: str | None = None,
    ) -> Answer:
        """Run a model on inputs: texts, or objects with the fields of the model's task. One needs no list.

        ``model`` is ``model``, ``tenant/model``, ``tenant/model@alias`` or ``tenant/model:version``. With
        ``explain``, each result says how each of its tokens was computed. ``quality``: ``"fast"`` answers
        from the tables, ``"exact"`` computes each text in full, ``"balanced"`` computes those that the tables
        are not sure of; the default is that of the version or the server. ``target``, with ``"balanced"``:
        the model's metric on its dev split that is to be reached at the least cost, 0 to 1."""
        content = infer_request(model, inputs, timeout_s, quality, target, explain, idempotency_key)
        return from_json(Answer, json_of(self._request("POST", **content)))


def infer_request(
    model: str,
    inputs: str | Mapping[str, str] | Sequence[str | Mapping[str, str]],
    timeout_s: float | None,
    quality: Quality | None,
    target: float | None,
    explain: bool,
    idempotency_key: str | None,
) -> dict[str, Any]:
    """The arguments of `Server.request` for `Client.infer`'s."""
    body: dict[str, Any] = {"model": model, "inputs": as_list(inputs)}
    given = {"timeout_s": timeout_s, "quality": quality, "target": target, "explain": explain or None}
    body.update({name: value for name, value in given.items() if value is not None})
    return {
        "path": "infer",
        "json": body,
        "headers": {"Idempotency-Key": idempotency_key or uuid4().hex},
        "timeout_s": None if timeout_s is None else timeout_s + TIMEOUT_MARGIN_S,
    }
