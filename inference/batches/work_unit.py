"""One turn of work at a batch: its lines go to the inference workers, what they answer to a file."""

import math
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from inference.batches.inference_calls import Answers, Asker
from inference.batches.input_lines import Block, blocks_of, lines_of
from inference.batches.line_formats import Form
from inference.batches.models import Batch
from inference.batches.outputs import ERRORS, KINDS, RESULTS, Outputs
from inference.batches.selectors import others_wait
from inference.batches.services.batches import batch_check_room, batch_note
from inference.queueing.messages import ModelRef
from inference.queueing.replies import InferClient
from tenants.base.child_process import is_stopping
from tenants.base.errors import HmiError
from tenants.usage.services.quotas import quota_check_requests
from tenants.usage.services.usage import usage_record
from versiontree.tree.resolution import ResolvedModel, resolve_model_lately

ASKED_AT_ONCE: Final = 4
"""Requests of one batch that wait or are computed: the next is there when one is done."""
NOTED_EVERY_S: Final = 1.0
LOOKS_EVERY_S: Final = 0.5
STALLED_AFTER_S: Final = 60.0
"""Without an answer for so long it may be that nobody serves the root: others need not wait for one."""
MEASURED_EVERY_S: Final = 10.0


class Interrupted(Exception):
    """It is to be gone on with later, or as ``soon`` as somebody can."""

    def __init__(self, *, soon: bool) -> None:
        super().__init__()
        self.soon = soon


class Unwanted(Exception):
    """It was cancelled, its time is over, or its tenant is suspended."""


@dataclass(frozen=True, slots=True)
class Model:
    """The one version that answers, and how a batch's lines are read for it."""

    resolved: ResolvedModel
    form: Form
    embeds: bool = False

    @property
    def reference(self) -> str:
        """The version, whatever its aliases do."""
        return f"{self.resolved.model_name}:{self.resolved.version_number}"

    @property
    def ref(self) -> ModelRef:
        """As inference workers know it."""
        of = self.resolved
        return ModelRef(of.tenant_slug, of.model_name, of.version_number, of.digest)


class Work:
    """One turn of work at a batch."""

    def __init__(self, batch: Batch, model: Model, client: InferClient, until: float) -> None:
        self._batch, self._model, self._until = batch, model, until
        self._asker = Asker(client, model.ref, model.resolved.root_digest, batch.pk.hex, embed=model.embeds)
        self._waiting: deque[tuple[Block, Future[Answers]]] = deque()
        self._reached = {
            name: int(getattr(batch, name))
            for name in ("read_bytes", "read_lines", "lines", "succeeded", "failed", "tokens")
        }
        self._noted_at = self._answered_at = time.monotonic()
        self._measured_at = -math.inf

    def through(self, source: Path) -> None:
        """To the end of the file. Raises Interrupted, Unwanted, HmiError and OSError; what was answered by
        then is noted."""
        batch = self._batch
        sizes = {RESULTS: batch.results_bytes, ERRORS: batch.errors_bytes}
        with (
            source.open("rb") as stream,
            Outputs(batch.folder, sizes) as outputs,
            _pool() as pool,
        ):
            self._measure()
            stream.seek(batch.read_bytes)
            lines = lines_of(stream, after=batch.read_lines)
            try:
                for block in blocks_of(lines, self._model.form.read):
                    while len(self._waiting) >= ASKED_AT_ONCE:
                        self._take(outputs)
                    self._check_quota()
                    first = block.lines[0].number
                    self._waiting.append((block, pool.submit(self._asker.ask, first, block.inputs)))
                    self._check_turn()
                while self._waiting:
                    self._take(outputs)
                if not self._note(outputs):
                    raise Unwanted
            except Interrupted:
                while self._waiting and not is_stopping():
                    self._take(outputs)
                raise
            finally:
                self._asker.stop()
                self._note(outputs)

    def _check_turn(self) -> None:
        """Raises Interrupted when others shall have theirs."""
        if is_stopping() or (time.monotonic() > self._until and others_wait(self._batch)):
            raise Interrupted(soon=True)

    def _check_quota(self) -> None:
        """Raises Interrupted when the day's is used up."""
        try:
            quota_check_requests(tenant=self._batch.tenant)
        except HmiError as error:
            raise Interrupted(soon=False) from error

    def _take(self, outputs: Outputs) -> None:
        """Write what the oldest of the requests was answered."""
        block, future = self._waiting[0]
        while True:
            try:
                answers = future.result(timeout=LOOKS_EVERY_S)
                break
            except TimeoutError:
                if is_stopping():
                    raise Interrupted(soon=True) from None
                stalled = time.monotonic() - self._answered_at > STALLED_AFTER_S
                if stalled and not self._asker.is_searching:
                    self._check_turn()
                self._look(outputs)
        self._answered_at = time.monotonic()
        self._waiting.popleft()
        self._write(block, answers, outputs)
        self._look(outputs)

    def _write(self, block: Block, answers: Answers, outputs: Outputs) -> None:
        left = iter(answers.each)
        written: dict[str, list[bytes]] = {kind: [] for kind in KINDS}
        for asked in block.lines:
            kind, line = self._model.form.written(asked, [next(left) for _ in asked.inputs])
            written[kind].append(line)
        outputs.write(written)
        reached = self._reached
        reached["read_bytes"], reached["read_lines"] = block.end, block.last
        reached["lines"] += len(block.lines)
        reached["succeeded"] += len(written[RESULTS])
        reached["failed"] += len(written[ERRORS])
        reached["tokens"] += answers.tokens
        if answers.each:
            usage_record(
                tenant=self._batch.tenant,
                model_name=self._model.resolved.model_name,
                inputs=len(answers.each),
                tokens=answers.tokens,
                failed=all(isinstance(one, HmiError) for one in answers.each),
                key_prefix=self._batch.key_prefix,
                busy_ms=answers.busy_ms,
            )

    def _look(self, outputs: Outputs) -> None:
        """Now and then: note how far it is, and whether it is wanted, and can be answered, still."""
        if time.monotonic() - self._noted_at < NOTED_EVERY_S:
            return
        if not self._note(outputs):
            raise Unwanted
        self._measure()
        resolve_model_lately(self._batch.tenant, self._model.reference)

    def _measure(self) -> None:
        """Now and then: raise ``quota_exceeded`` where what is written goes too far beyond the storage."""
        if time.monotonic() - self._measured_at >= MEASURED_EVERY_S:
            self._measured_at = time.monotonic()
            batch_check_room(batch=self._batch)

    def _note(self, outputs: Outputs) -> bool:
        outputs.sync()
        sizes = {f"{kind}_bytes": size for kind, size in outputs.sizes.items()}
        self._noted_at = time.monotonic()
        if self._reached["read_bytes"] == self._batch.read_bytes:
            return batch_note(batch=self._batch)
        return batch_note(batch=self._batch, **self._reached, **sizes)


def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(ASKED_AT_ONCE, thread_name_prefix="batch")
