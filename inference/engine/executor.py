"""Batches mixed over tenants, domains and tasks through the shared upper layers of one root."""

import logging
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from threading import Event

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from inference.device_errors import raise_if_device_lost
from inference.engine.adapters import AdapterLoader, Adapters, Leases, PackedHplm
from inference.engine.batcher import StepCosts
from inference.engine.in_flight import (
    BatchCallbacks,
    BatchOutputs,
    BatchResult,
    Counters,
    GivenUpError,
    InFlightBatch,
    LayerCallback,
    NextBatchTiming,
)
from inference.engine.levels import LowerLayersSource, escalated_rows, retrieval
from inference.engine.pet_pool import PetPool, SlotMismatchError
from inference.engine.pipeline import BatchTask, LayerFeed, Pipeline
from inference.engine.pipelining import SYNCHRONISED
from inference.engine.rows import Answered, Failed, Outcome, Row, StageSeconds
from inference.errors import HplmError
from inference.hplm.attention import add_encoder_layout
from inference.hplm.heads import head_outputs, read_back
from inference.hplm.lower_states import finish_lower_states
from inference.hplm.pets.spec import UpperShape
from inference.hplm.plot_lookup import LookupResult
from inference.hplm.root import Root
from inference.hplm.sequences import PackedSequences
from inference.hplm.upload import Upload

log = logging.getLogger(__name__)

FAILED = "inference_failed"


class Executor:
    """Runs batches of one root. ``lower_layers`` is asked when a batch begins: the caller may add to it and
    take away. Every batch that was begun must be finished, by the thread that began it. ``costs`` is what its
    batches take, for the scheduler. ``free_memory`` gives back what lies on the device and can
    be loaded again: a batch that finds no memory calls it before it is tried again."""

    def __init__(
        self,
        root: Root,
        lower_layers: LowerLayersSource,
        pool: PetPool[PackedHplm],
        counters: Counters | None = None,
        pipeline: Pipeline | None = None,
        free_memory: Callable[[], None] = lambda: None,
    ) -> None:
        config = root.config
        self.root = root
        self.pool = pool
        self.counters = counters or Counters()
        self.costs = StepCosts()
        self._timing = NextBatchTiming(config.upper)
        self._lower_layers = lower_layers
        self._free_memory = free_memory
        self._pipeline = pipeline or Pipeline(SYNCHRONISED)
        shape = UpperShape(config.upper, config.hidden, config.architecture.inner)
        self._adapter_loader = AdapterLoader(pool, shape, root.upper.device, self._pipeline)

    @property
    def parallel_batches(self) -> int:
        """So many batches that were begun compute at the same time."""
        return self._pipeline.pipelining.at_once

    def step(self, rows: Sequence[Row]) -> list[Outcome]:
        """Compute rows, at least one, all of this root; one outcome per row, in order.

        A row whose model cannot be loaded, or whose numbers are not finite, fails alone. A batch that fails
        as a whole is cut in two until the row that fails is alone.
        """
        return self.finish(self.begin(rows))

    def begin(
        self,
        rows: Sequence[Row],
        callbacks: BatchCallbacks = BatchCallbacks(),  # noqa: B008 - it is frozen
        *,
        alone: bool = False,
    ) -> InFlightBatch:
        """Start what the pipeline does ahead of a batch's turn: look its fragments up, fetch its adapters.
        Where batches compute in threads of their own, start its turn too; one that is ``alone`` has all
        cores."""
        number, own, given_up = self._pipeline.number(), list(rows), Event()

        def fetch() -> Adapters:
            return self._adapter_loader.fetch(number, own, given_up.is_set)

        looked_up = self._pipeline.retrieve(number, retrieval(own, self._lower_layers))
        fetched = self._pipeline.acquire(number, fetch, Adapters.bring_layers)

        def compute() -> BatchResult | None:
            if given_up.is_set() or not callbacks.wanted():
                given_up.set()
                return None
            share = 1.0 if alone else 1 / self.parallel_batches
            return self._run(number, own, looked_up, fetched, callbacks, share)

        computing = self._pipeline.compute(compute, alone=alone)
        return InFlightBatch(number, own, looked_up, fetched, computing, given_up)

    def finish(self, batch: InFlightBatch) -> list[Outcome]:
        """The outcomes of a batch that was begun; as `step`. Raises GivenUpError, with all leases released,
        if no request waited for it any more when it was to be computed; and DeviceLostError."""
        done = self._guarded(batch)
        if done is None:
            self.abandon(batch)
            raise GivenUpError
        self.counters.batches += 1
        self.counters.rows += len(batch.rows)
        self.counters.failed += sum(isinstance(outcome, Failed) for outcome in done)
        return done

    def abandon(self, batch: InFlightBatch) -> None:
        """Give up a batch that was begun: tasks that have not begun are cancelled, and its leases are
        released when the others have ended. Waits only if the batch is being computed."""
        batch.given_up.set()
        batch.computing.cancel()
        batch.lookup.cancel()
        batch.computing.wait_if_begun()
        self._pipeline.afterwards(lambda: self._let_go(batch))

    @torch.inference_mode()
    def warm_up(self, rows: int, tokens: int) -> None:
        """Compute a batch of that shape without PLOT and models, so that no request meets a cold start.

        Raises HplmError(inference_failed) when the root's upper layers are of no use.
        """
        config, device = self.root.config, self.root.upper.device
        sequences = PackedSequences((min(tokens, config.max_tokens),) * rows)
        hidden = torch.zeros(sequences.tokens, config.hidden, device=device)
        if not bool(torch.isfinite(self.root.upper(hidden, sequences)).all()):
            raise HplmError(FAILED, f"root {config.name} computes no finite numbers")

    def _let_go(self, batch: InFlightBatch) -> None:
        with suppress(Exception):  # what could not be had holds nothing
            self._adapter_loader.release(batch.adapters.result().value.leases)

    def _guarded(self, batch: InFlightBatch, *, again: bool = False) -> list[Outcome] | None:
        """The outcomes of the batch, None if it was given up. Rows fail alone: those without a model at once,
        others by halving. If the device has no memory left, the batch is tried ``again`` first."""
        try:
            result = batch.computing.result().value
            return None if batch.given_up.is_set() else self._outcomes(batch, result)
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not take the other rows down
            failure = error
        finally:
            if not batch.given_up.is_set():
                self._let_go(batch)
        rows = batch.rows
        batch.forget()  # what it had looked up and computed takes the memory of the next attempt
        traceback.clear_frames(failure.__traceback__)
        if isinstance(failure, torch.OutOfMemoryError) and not again:
            log.warning("a batch of %d rows found no memory, it is tried again: %s", len(rows), failure)
            self._free_memory()
            return self._again(rows, again=True)
        return self._blame(rows, failure)

    def _outcomes(self, batch: InFlightBatch, result: BatchResult | None) -> list[Outcome]:
        adapters = batch.adapters.result().value
        if result is not None:
            self._timing.learn(ahead_s=result.ahead_s, computing_s=result.computing_s)
            return _outcomes(batch.rows, adapters.leases, result)
        refused = adapters.refused
        left = iter(self._again([row for row in batch.rows if row.model.digest not in refused]))
        return [
            next(left) if row.model.digest not in refused else Failed(row, FAILED, refused[row.model.digest])
            for row in batch.rows
        ]

    def _again(self, rows: list[Row], *, again: bool = False) -> list[Outcome]:
        """Rows from the beginning, with nothing done ahead; ``again`` as in `_guarded`."""
        if not rows:
            return []
        number = self._pipeline.number()
        looked_up = BatchTask(retrieval(rows, self._lower_layers), None)
        fetched = BatchTask(lambda: self._adapter_loader.fetch(number, rows), None, Adapters.bring_layers)
        computing = BatchTask(lambda: self._run(number, rows, looked_up, fetched, BatchCallbacks()), None)
        batch = InFlightBatch(number, rows, looked_up, fetched, computing, Event())
        return self._guarded(batch, again=again) or []

    def _blame(self, rows: list[Row], error: Exception) -> list[Outcome]:
        """Half a batch at a time, until the row that fails is alone. Raises DeviceLostError where none
        could be computed any more."""
        raise_if_device_lost(error)
        if len(rows) > 1:
            log.warning("a batch of %d rows failed (%s), trying halves", len(rows), error)
            half, freed = len(rows) // 2, isinstance(error, torch.OutOfMemoryError)
            return self._again(rows[:half], again=freed) + self._again(rows[half:], again=freed)
        if isinstance(error, SlotMismatchError):
            self.counters.slot_mismatches += 1
        log.error("a row of %s failed", rows[0].model, exc_info=error)
        return [Failed(rows[0], FAILED, "the model could not be computed")]

    def _run(
        self,
        number: int,
        rows: list[Row],
        looked_up: BatchTask[LookupResult],
        fetched: BatchTask[Adapters],
        callbacks: BatchCallbacks,
        share: float = 1.0,
    ) -> BatchResult | None:
        """The stages of the paper's figure 10, as far as no thread has done them ahead; computing has this
        ``share`` of the processor. None where not all models can be had."""
        adapters = fetched.result()
        feed = adapters.value.feed
        if adapters.value.refused or feed is None:
            return None
        found = looked_up.result()
        callback = LayerCallback(self._timing.layer, lambda: callbacks.prefetch(number))
        started = time.perf_counter()
        with self._pipeline.trace.span("compute", number, "compute"):
            outputs = self._compute(rows, found.value, feed, callback)
        computing_s = time.perf_counter() - started - callback.seconds
        seconds = StageSeconds(found.seconds, adapters.seconds + feed.late_s, share * computing_s)
        return BatchResult(outputs, seconds, computing_s)

    @torch.inference_mode()
    def _compute(
        self,
        rows: list[Row],
        found: LookupResult,
        feed: LayerFeed,
        callback: LayerCallback,
    ) -> BatchOutputs:
        upper, sequences = self.root.upper, PackedSequences.of(found.texts.ids)
        upload = Upload(upper.device)
        add_encoder_layout(sequences, upload, upper.dtype, upper.architecture)
        states = finish_lower_states(found, upper.dtype, upload)
        last = upper(states.states, sequences, feed, callback.before)
        outputs = head_outputs(feed.heads(), last, sequences, states.states)
        embeddings = self._embeddings(rows, last, sequences)
        arrays = read_back([*outputs, *embeddings.values()])
        logits = list(map(_asked_for, rows, arrays))
        escalated = escalated_rows(rows, logits, states.coverage)
        return BatchOutputs(
            states, dict(zip(embeddings, arrays[len(rows) :], strict=True)), logits, escalated
        )

    def _embeddings(self, rows: list[Row], last: Tensor, sequences: PackedSequences) -> dict[int, Tensor]:
        """The embedding of each row that asks for it, by its place."""
        places = [at for at, row in enumerate(rows) if row.embed]
        if not places:
            return {}
        parts = sequences.split(last)
        return dict(zip(places, self.root.sentence.embed([parts[at] for at in places]), strict=True))


def _asked_for(row: Row, outputs: NDArray[np.float32]) -> NDArray[np.float32]:
    """Of a task with outputs for each token, those of the tokens that the row asks for."""
    return outputs if outputs.ndim == 1 or row.outputs_at is None else outputs[row.outputs_at]


def _outcomes(rows: list[Row], leases: Leases, result: BatchResult) -> list[Outcome]:
    states, embeddings, logits, escalated = result.outputs
    shares = _shares(rows, leases, result.seconds)
    tenants = len({row.model.tenant for row in rows})
    outcomes: list[Outcome] = []
    for at, row in enumerate(rows):
        embedding = embeddings.get(at)
        if not all(bool(np.isfinite(found).all()) for found in (logits[at], embedding) if found is not None):
            outcomes.append(Failed(row, FAILED, "the model gave numbers that are not finite"))
            continue
        outcomes.append(
            Answered(
                row=row,
                logits=logits[at],
                used=leases[row.model.digest].identity(row.model),
                coverage=states.coverage[at],
                seconds=shares[at],
                batch_rows=len(rows),
                batch_tenants=tenants,
                given=states.token_levels[at],
                embedding=embedding,
                escalates=at in escalated,
            )
        )
    return outcomes


def _shares(rows: list[Row], leases: Leases, seconds: StageSeconds) -> list[StageSeconds]:
    """What each row takes of a batch's time, by its work; but a model that had to be loaded is on its own
    rows alone: tenants with many requests do not pay for those with one."""
    work, work_of = 0, Counter[str]()
    for row in rows:
        work += row.work
        work_of[row.model.digest] += row.work
    loading = sum(lease.loading_s for lease in leases.values())
    common = replace(seconds, adapter_load=max(0.0, seconds.adapter_load - loading))
    return [
        common.share(row.work / work)
        + StageSeconds(adapter_load=leases[row.model.digest].loading_s * row.work / work_of[row.model.digest])
        for row in rows
    ]
