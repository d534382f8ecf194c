"""Batches mixed over tenants, domains and tasks through the shared upper layers of one root."""

import logging
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Event

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from inference.engine.adapters import AdapterDesk, Adapters, Leases
from inference.engine.batcher import StepCosts
from inference.engine.flight import Computed, Flight, GivenUpError, Turn, Watch
from inference.engine.lead import Aside, Lead
from inference.engine.pipeline import Pipeline, Stage
from inference.engine.pipelining import SYNCHRONISED
from inference.engine.residency import HplmCache, SlotMismatchError
from inference.engine.retrieval import LowerHalves, hits_of, retrieval
from inference.engine.rows import Answered, Failed, Outcome, Row, StageSeconds
from inference.errors import HplmError
from inference.hplm.heads import apply_heads, mean_state
from inference.hplm.lower_states import finish_lower_states
from inference.hplm.pets import UpperShape
from inference.hplm.plot_lookup import LookupResult
from inference.hplm.root import Root
from inference.hplm.sequences import PackedSequences

log = logging.getLogger(__name__)

FAILED = "inference_failed"


@dataclass(slots=True)
class Counters:
    """What one or several executors have done so far. ``slot_mismatches`` must stay 0."""

    batches: int = 0
    rows: int = 0
    failed: int = 0
    slot_mismatches: int = 0


class Executor:
    """Runs batches of one root. ``halves`` is asked when a batch begins: the caller may add to it and take
    away. Every batch that was begun must be finished, by the thread that began it. ``costs`` is what its
    batches take, for whoever puts them together; ``abreast`` how many of them compute side by side."""

    def __init__(
        self,
        root: Root,
        halves: LowerHalves,
        cache: HplmCache,
        counters: Counters | None = None,
        pipeline: Pipeline | None = None,
    ) -> None:
        config = root.config
        self.root = root
        self.cache = cache
        self.counters = counters or Counters()
        self.costs = StepCosts()
        self._lead = Lead(config.upper)
        self._halves = halves
        self._pipeline = pipeline or Pipeline(SYNCHRONISED)
        shape = UpperShape(config.upper, config.hidden, config.architecture.inner)
        self._desk = AdapterDesk(cache, shape, root.upper.device, self._pipeline)

    @property
    def abreast(self) -> int:
        """So many batches that were begun compute at the same time."""
        return self._pipeline.pipelining.at_once

    def step(self, rows: Sequence[Row]) -> list[Outcome]:
        """Compute rows, at least one, all of this root; one outcome per row, in order.

        A row whose model cannot be loaded, or whose numbers are not finite, fails alone. A batch that fails
        as a whole is cut in two until what is to blame stands alone.
        """
        return self.finish(self.begin(rows))

    def begin(self, rows: Sequence[Row], watch: Watch = Watch()) -> Flight:  # noqa: B008 - it is frozen
        """Start what the pipeline does ahead of a batch's turn: look its fragments up, fetch its adapters.
        Where batches compute in threads of their own, start its turn too."""
        number, own, given_up = self._pipeline.number(), list(rows), Event()

        def fetch() -> Adapters:
            return self._desk.fetch(number, own, given_up.is_set)

        looked_up = self._pipeline.retrieve(number, retrieval(own, self._halves))
        fetched = self._pipeline.acquire(number, fetch, Adapters.bring_layers)

        def turn() -> Turn | None:
            if given_up.is_set() or not watch.wanted():
                given_up.set()
                return None
            return self._turn(number, own, looked_up, fetched, watch, 1 / self.abreast)

        computing = self._pipeline.compute(turn)
        return Flight(number, own, looked_up, fetched, computing, given_up)

    def finish(self, flight: Flight) -> list[Outcome]:
        """What came of a batch that was begun; as `step`. Raises GivenUpError, with everything given back,
        where nobody waited for it any more when its turn came."""
        done = self._guarded(flight)
        if done is None:
            self.abandon(flight)
            raise GivenUpError
        self.counters.batches += 1
        self.counters.rows += len(flight.rows)
        self.counters.failed += sum(isinstance(outcome, Failed) for outcome in done)
        return done

    def abandon(self, flight: Flight) -> None:
        """Let go of a batch that was begun and that nobody waits for any more: what of it has not begun never
        does, and what is under way is let go of when it is done, which is not waited for unless it is its
        turn."""
        flight.given_up.set()
        flight.turn.cancel()
        flight.retrieval.cancel()
        flight.turn.wait_if_begun()
        self._pipeline.afterwards(lambda: self._let_go(flight))

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

    def _let_go(self, flight: Flight) -> None:
        with suppress(Exception):  # what could not be had holds nothing
            self._desk.release(flight.adapters.result().value.leases)

    def _guarded(self, flight: Flight) -> list[Outcome] | None:
        """What came of the batch's turn, None where it was given up. What fails fails alone: rows without a
        model at once, others by halving."""
        try:
            turn = flight.turn.result().value
            return None if flight.given_up.is_set() else self._told(flight, turn)
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not take the other rows down
            return self._blame(flight.rows, error)
        finally:
            if not flight.given_up.is_set():
                self._let_go(flight)

    def _told(self, flight: Flight, turn: Turn | None) -> list[Outcome]:
        adapters = flight.adapters.result().value
        if turn is not None:
            self._lead.learn(ahead_s=turn.ahead_s, computing_s=turn.computing_s)
            return _outcomes(flight.rows, adapters.leases, turn)
        refused = adapters.refused
        left = iter(self._again([row for row in flight.rows if row.model.digest not in refused]))
        return [
            next(left) if row.model.digest not in refused else Failed(row, FAILED, refused[row.model.digest])
            for row in flight.rows
        ]

    def _again(self, rows: list[Row]) -> list[Outcome]:
        """Rows from the beginning, with nothing done ahead."""
        if not rows:
            return []
        number = self._pipeline.number()
        looked_up = Stage(retrieval(rows, self._halves), None)
        fetched = Stage(lambda: self._desk.fetch(number, rows), None, Adapters.bring_layers)
        turn = Stage(lambda: self._turn(number, rows, looked_up, fetched, Watch()), None)
        return self._guarded(Flight(number, rows, looked_up, fetched, turn, Event())) or []

    def _blame(self, rows: list[Row], error: Exception) -> list[Outcome]:
        """Half a batch at a time, until the row that fails stands alone."""
        if len(rows) > 1:
            log.warning("a batch of %d rows failed (%s), trying halves", len(rows), error)
            half = len(rows) // 2
            return self._again(rows[:half]) + self._again(rows[half:])
        if isinstance(error, SlotMismatchError):
            self.counters.slot_mismatches += 1
        log.error("a row of %s failed", rows[0].model, exc_info=error)
        return [Failed(rows[0], FAILED, "the model could not be computed")]

    def _turn(
        self,
        number: int,
        rows: list[Row],
        looked_up: Stage[LookupResult],
        fetched: Stage[Adapters],
        watch: Watch,
        share: float = 1.0,
    ) -> Turn | None:
        """The stages of the paper's figure 10, as far as no thread has done them ahead; computing has this
        ``share`` of the processor. None where not all models can be had."""
        adapters = fetched.result()
        if adapters.value.refused:
            return None
        sought = looked_up.result()
        aside = Aside(self._lead.layer, lambda: watch.near_end(number))
        started = time.perf_counter()
        with self._pipeline.trace.span("compute", number, "compute"):
            computed = self._compute(rows, sought.value, adapters.value, aside)
        computing_s = time.perf_counter() - started - aside.seconds
        assert adapters.value.feed is not None
        fetching_s = adapters.seconds + adapters.value.feed.late_s
        return Turn(computed, StageSeconds(sought.seconds, fetching_s, share * computing_s), computing_s)

    @torch.inference_mode()
    def _compute(self, rows: list[Row], sought: LookupResult, adapters: Adapters, aside: Aside) -> Computed:
        upper, states = self.root.upper, finish_lower_states(sought, self.root.upper.dtype)
        last = upper(states.states, states.sequences, adapters.feed, aside.before)
        logits = [
            found if found.ndim == 1 or row.outputs_at is None else found[row.outputs_at]
            for row, found in zip(rows, apply_heads(adapters.heads, last, states.sequences), strict=True)
        ]
        return Computed(states, _means(rows, last, states.sequences), logits)


def _outcomes(rows: list[Row], leases: Leases, turn: Turn) -> list[Outcome]:
    computed = turn.computed
    states, logits = computed.states, computed.logits
    shares = _shares(rows, leases, turn.seconds)
    tenants = len({row.model.tenant for row in rows})
    outcomes: list[Outcome] = []
    for at, row in enumerate(rows):
        mean = computed.means.get(at)
        if not all(bool(np.isfinite(found).all()) for found in (logits[at], mean) if found is not None):
            outcomes.append(Failed(row, FAILED, "the model gave numbers that are not finite"))
            continue
        outcomes.append(
            Answered(
                row=row,
                logits=logits[at],
                used=leases[row.model.digest].identity(row.model),
                hits=hits_of(states.counts[at]),
                missed=states.missed[at],
                seconds=shares[at],
                batch_rows=len(rows),
                batch_tenants=tenants,
                given=states.token_levels[at],
                mean=mean,
            )
        )
    return outcomes


def _means(rows: list[Row], last: Tensor, sequences: PackedSequences) -> dict[int, NDArray[np.float32]]:
    """The mean final state of each row that asks for it, by its place."""
    asking = [at for at, row in enumerate(rows) if row.embed]
    if not asking:
        return {}
    parts = sequences.split(last)
    means = torch.stack([mean_state(parts[at]) for at in asking]).cpu().numpy()
    return dict(zip(asking, means, strict=True))


def _shares(rows: list[Row], leases: Leases, seconds: StageSeconds) -> list[StageSeconds]:
    """What each row takes of a batch's time, by its tokens; but a model that had to be loaded is on its own
    rows alone: whoever asks often does not pay for who comes once."""
    tokens, tokens_of = 0, Counter[str]()
    for row in rows:
        tokens += len(row)
        tokens_of[row.model.digest] += len(row)
    loading = sum(lease.brought_s for lease in leases.values())
    common = replace(seconds, adapter_load=max(0.0, seconds.adapter_load - loading))
    return [
        common.share(len(row) / tokens)
        + StageSeconds(
            adapter_load=leases[row.model.digest].brought_s * len(row) / tokens_of[row.model.digest]
        )
        for row in rows
    ]
