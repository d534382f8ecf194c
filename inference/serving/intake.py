"""From a delivered request to rows: refuse what is late, unknown, or no sequence of this root's tokens."""

import logging

import numpy as np
from numpy.typing import NDArray

from inference.cascade.dispatcher import Level
from inference.engine.rows import ModelIdentity, Row, work_of
from inference.errors import HplmError
from inference.number_format import format_seconds
from inference.queueing.consumer import Entry
from inference.queueing.log_fields import identity_fields
from inference.queueing.messages import InferReply, InferRequest, TokenSequence
from inference.queueing.transport import CANCELLED
from inference.serving.catalogue import Catalogue, NotServedError, Route
from inference.serving.ticket import Ticket

log = logging.getLogger(__name__)


def admit(entry: Entry, catalogue: Catalogue, now: float) -> Ticket | InferReply | None:
    """A ticket for the request, or the reply that refuses it. None while what it names may come with the
    revision that is being prepared: it is to be asked again."""
    request = entry.request
    if now >= request.deadline:
        return expiry(entry)
    try:
        return _ticket(entry, catalogue)
    except HplmError as error:
        if isinstance(error, NotServedError) and catalogue.is_behind:
            return None
        return InferReply.failure(request.id, request.model, error.code, error.message)
    except Exception:  # whatever it is, it must not end the loop
        log.exception("request %s cannot be taken in", request.id, extra=identity_fields(request))
        message = "the request cannot be taken in"
        return InferReply.failure(request.id, request.model, "inference_failed", message)


def expiry(entry: Entry) -> InferReply:
    """The reply to a request that came too late to be computed in time."""
    request = entry.request
    allowed = request.deadline - request.enqueued_at
    message = f"the request was not served within {format_seconds(allowed)}"
    return InferReply.failure(request.id, request.model, "deadline_exceeded", message)


def cancellation(entry: Entry) -> InferReply:
    """The reply to a request that its caller has cancelled."""
    request = entry.request
    return InferReply.failure(request.id, request.model, CANCELLED, "the request was canceled")


def _ticket(entry: Entry, catalogue: Catalogue) -> Ticket:
    request = entry.request
    model = ModelIdentity(request.tenant, request.hplm, request.version, request.digest)
    route = catalogue.route(model)
    if request.root != route.served.root:
        message = f"{model} has another root than the one its tokens were read for"
        raise NotServedError("model_not_ready", message)
    rows = [
        _row(str(index), sequence, request, model, route) for index, sequence in enumerate(request.sequences)
    ]
    return Ticket(entry, route, rows)


def _row(
    key: str,
    sequence: TokenSequence,
    request: InferRequest,
    model: ModelIdentity,
    route: Route,
) -> Row:
    """HplmError(inference_failed) for what no tokenizer of the root gives."""
    config = route.executor.root.config
    ids = np.frombuffer(sequence.ids, "<i4").astype(np.int64)
    types, asked, words = np.zeros_like(ids), None, None
    if sequence.types:
        types = np.frombuffer(sequence.types, np.uint8).astype(np.int64)
    if sequence.outputs_at is not None:
        asked = np.frombuffer(sequence.outputs_at, "<i4").astype(np.int64)
        _require_below(len(ids), asked, f"a position of sequence {key}")
    if sequence.words:
        words = np.frombuffer(sequence.words, "<i4").astype(np.int64)
    _require_below(config.vocab, ids, f"a token of sequence {key}")
    _require_below(config.type_count, types, f"a type of sequence {key}")
    _require_below(config.max_tokens + 1, np.array([len(ids)]), f"the length of sequence {key}")
    level = Level(request.level)
    return Row(
        key,
        ids,
        types,
        model,
        route.chain,
        level,
        work_of(len(ids), level, config),
        request.dispatcher,
        sequence.text_hash,
        request.explain,
        request.embed,
        asked,
        words,
    )


def _require_below(limit: int, values: NDArray[np.int64], what: str) -> None:
    if len(values) and not 0 <= values.min() <= values.max() < limit:
        raise HplmError("inference_failed", f"{what} is not in 0 to {limit - 1}")
