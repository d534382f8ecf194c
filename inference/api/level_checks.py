"""Checks of served answers: a sample of the texts that the tables answered is computed in full as well, and
it is counted whether both answers are the same.

Texts wait in memory, at most MAX_WAITING of them, and are sent one at a time as requests of the background,
which are computed when no other request waits. What finds no place, or is not computed within CHECK_S, is not
checked: these are figures, not work.
"""

import atexit
import logging
import threading
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, islice
from queue import Empty, Full, Queue
from typing import Any, Final

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection
from redis.exceptions import RedisError

from inference.api.prepared_request import PreparedRequest, outputs_of, token_sequences
from inference.cascade.dispatcher import Level, is_sampled
from inference.queueing.messages import InferReply, ModelRef
from inference.queueing.replies import InferClient, NoReply
from inference.queueing.transport import QueueFull
from inference.text.codec import TextCodec
from inference.text.encodings import EncodedInput
from inference.text.outputs import Outputs
from inference.text.prediction_result import LEVEL_WORDS, same_answer
from inference.text.tasks import REGRESSION
from tenants.accounts.models import Tenant
from tenants.usage.services.answer_counts import AnswerCount
from tenants.usage.services.usage import answers_record

log = logging.getLogger(__name__)

MAX_WAITING: Final = 64
CHECK_S: Final = 60.0
CAPACITY: Final = 64
"""Places in the background beyond which nothing is checked."""
CLOSE_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class LevelCheck:
    """A text that the tables answered, and that answer."""

    tenant: Tenant
    model: ModelRef
    root: str
    codec: TextCodec
    encoded: EncodedInput
    result: Mapping[str, Any]


def sampled_checks(prepared: PreparedRequest, results: Sequence[Mapping[str, Any]]) -> list[LevelCheck]:
    """The checks of a request's results: of a sample, by the hash of the text, of those at the level TABLE.

    None of embeddings, of models that are never computed in full, nor of numbers for which it is not known
    how near is the same.
    """
    share, codec = float(settings.HMI_CHECK_SHARE), prepared.codec
    if not share or not prepared.tenant.checks_answers or not _is_comparable(codec):
        return []
    firsts = accumulate((len(each.encodings) for each in prepared.encoded), initial=0)
    hashes = (prepared.sequences[first].text_hash for first in islice(firsts, len(results)))
    return [
        LevelCheck(prepared.tenant, prepared.model, prepared.admission.root, codec, encoded, result)
        for encoded, result, text_hash in zip(prepared.encoded, results, hashes, strict=True)
        if result["level"] == LEVEL_WORDS[Level.TABLE] and is_sampled(text_hash, share)
    ]


def _is_comparable(codec: TextCodec) -> bool:
    if codec.names is None or codec.names.table_only:
        return False
    return codec.names.task != REGRESSION or _within(codec) is not None


def _within(codec: TextCodec) -> float | None:
    return codec.cascade.same_within if codec.cascade else None


class LevelChecker:
    """A thread that sends checks, from the first one on."""

    def __init__(self) -> None:
        self._waiting: Queue[LevelCheck | None] = Queue(MAX_WAITING)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, checks: Sequence[LevelCheck]) -> None:
        """Check these when there is time. Returns at once; what finds no place is dropped."""
        with suppress(Full):
            for check in checks:
                self._waiting.put_nowait(check)
        if checks:
            self._start()

    def close(self) -> None:
        """Drop what waits and end the thread, unless that takes longer than CLOSE_S."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            with suppress(Empty):
                while True:
                    self._waiting.get_nowait()
            self._waiting.put(None)
            thread.join(CLOSE_S)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="level-checks", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        client = InferClient(settings.REDIS_URL, capacity=CAPACITY, background=True)
        try:
            while (check := self._waiting.get()) is not None:
                try:
                    run_check(check, client)
                except Exception:
                    log.exception("an answer of %s could not be checked", check.model)
                finally:
                    connection.close()
        finally:
            with suppress(RedisError):
                client.close()


def run_check(check: LevelCheck, client: InferClient) -> None:
    """Compute the text at the level FULL, and count whether the answer is the same."""
    reply = _ask(check, client)
    if reply is None or not reply.ok or reply.model != check.model:
        return
    agreed = _agrees(check, outputs_of(reply.outputs))
    try:
        answers_record(
            tenant=check.tenant,
            model_name=check.model.hplm,
            version=check.model.version,
            count=AnswerCount(checked_texts=1, agreed_texts=int(agreed)),
        )
    except (OperationalError, InterfaceError) as error:
        log.error("A check of %s for %s was not counted: %s", check.model.tenant, check.model.hplm, error)


def _agrees(check: LevelCheck, outputs: Sequence[Outputs]) -> bool:
    names = check.codec.names
    assert names is not None
    (full,) = check.codec.results([check.encoded], outputs)
    return same_answer(names.task, check.result, full, within=_within(check.codec) or 0.0)


def _ask(check: LevelCheck, client: InferClient) -> InferReply | None:
    """The reply, or None if no worker had time for it."""
    sequences = token_sequences([check.encoded], task=check.codec.task)
    call = f"check-{uuid.uuid4().hex}"
    with suppress(QueueFull, RedisError):
        try:
            return client.ask(
                check.model,
                sequences,
                root=check.root,
                seconds=CHECK_S,
                call=call,
                level=Level.FULL,
            )
        except NoReply:
            client.queue.cancel(check.model.tenant, call)
    return None


_checker = LevelChecker()


def check_sample(prepared: PreparedRequest, results: Sequence[Mapping[str, Any]]) -> None:
    """Check a sample of these results in the background. Returns at once."""
    _checker.add(sampled_checks(prepared, results))


@atexit.register
def close_level_checks() -> None:
    """Check nothing more of what was asked so far."""
    _checker.close()
