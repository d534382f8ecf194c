"""Batches mixed over tenants, domains and tasks through the shared upper layers of one root."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Event

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from inference.engine.adapters import AdapterDesk, Adapters, Leases
from inference.engine.costs import Costs
from inference.engine.lead import Aside, Lead
from inference.engine.pipeline import Pipeline, Stage
from inference.engine.pipelining import SYNCHRONISED
from inference.engine.residency import HplmCache, SlotMismatchError
from inference.engine.retrieval import LowerHalves, hits_of, retrieval
from inference.engine.rows import Answered, Failed, Outcome, Row, StageSeconds
from inference.hplm.errors import HplmError
from inference.hplm.heads import pooled
from inference.hplm.misses import Filled, filled
from inference.hplm.pets import Shape
from inference.hplm.root import Root
from inference.hplm.seeking import Sought

log = logging.getLogger(__name__)

FAILED = "inference_failed"


def _nothing() -> None:
    """Nothing is to be done while a batch computes."""


@dataclass(slots=True)
class Counters:
    """What one or several executors have done so far. ``slot_mismatches`` must stay 0."""

    batches: int = 0
    rows: int = 0
    failed: int = 0
    slot_mismatches: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Flight:
    """A batch that was begun: its rows, the stages that may be under way already, and whether nobody waits
    for it any more."""

    number: int
    rows: list[Row]
    retrieval: Stage[Sought]
    adapters: Stage[Adapters]
    given_up: Event = field(default_factory=Event)


@dataclass(frozen=True, slots=True, eq=False)
class Computed:
    """What a batch came to: its states at the cut, the mean final states that were asked for, and the logits
    of each row."""

    states: Filled
    means: Mapping[int, NDArray[np.float32]]
    logits: list[NDArray[np.float32]]


class Executor:
    """Runs batches of one root. ``halves`` is asked when a batch begins: the caller may add to it and take
    away. Every batch that was begun must be finished. ``costs`` is what its batches take, for whoever puts
    them together."""

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
        self.costs = Costs()
        self._lead = Lead(config.upper)
        self._halves = halves
        self._pipeline = pipeline or Pipeline(SYNCHRONISED)
        shape = Shape(config.upper, config.hidden, config.architecture.inner)
        self._desk = AdapterDesk(cache, shape, root.upper.device, self._pipeline)

    def step(self, rows: Sequence[Row]) -> list[Outcome]:
        """Compute rows, at least one, all of this root; one outcome per row, in order.

        A row whose hPLM cannot be loaded, or whose numbers are not finite, fails alone. A batch that fails
        as a whole is cut in two until what is to blame stands alone.
        """
        return self.finish(self.begin(rows))

    def begin(self, rows: Sequence[Row]) -> Flight:
        """Start what the pipeline does ahead of a batch's turn: look its fragments up, fetch its adapters."""
        number, own, given_up = self._pipeline.number(), list(rows), Event()

        def fetch() -> Adapters:
            return self._desk.fetch(number, own, given_up.is_set)

        return Flight(
            number,
            own,
            self._pipeline.retrieve(number, retrieval(own, self._halves)),
            self._pipeline.acquire(number, fetch, Adapters.bring_layers),
            given_up,
        )

    def finish(self, flight: Flight, meanwhile: Callable[[], None] = _nothing) -> list[Outcome]:
        """Compute a batch that was begun; as `step`.

        ``meanwhile``, which must not raise, is called between two layers, at most once: as late as leaves
        time for what is done ahead of the next batch's turn, so that this batch is chosen late.
        """
        done = self._guarded(flight, meanwhile)
        self.counters.batches += 1
        self.counters.rows += len(flight.rows)
        self.counters.failed += sum(isinstance(outcome, Failed) for outcome in done)
        return done

    def abandon(self, flight: Flight) -> None:
        """Let go of a batch that was begun and that nobody waits for any more: what of it has not begun never
        does, and what is under way is let go of when it is done, which is not waited for."""
        flight.given_up.set()
        flight.retrieval.cancel()
        self._pipeline.afterwards(lambda: self._let_go(flight))

    @torch.inference_mode()
    def warm_up(self, rows: int, tokens: int) -> None:
        """Compute a batch of that shape without PLOT and hPLMs, so that no request meets a cold start.

        Raises HplmError(inference_failed) when the root's upper layers are of no use.
        """
        config, device = self.root.config, self.root.upper.device
        hidden = torch.zeros(rows, min(tokens, config.max_tokens), config.hidden, device=device)
        mask = torch.ones(hidden.shape[:2], dtype=torch.bool, device=device)
        if not bool(torch.isfinite(self.root.upper(hidden, mask, None)).all()):
            raise HplmError(FAILED, f"root {config.name} computes no finite numbers")

    def _let_go(self, flight: Flight) -> None:
        try:
            self._desk.release(flight.adapters.result().value.leases)
        except Exception as error:  # noqa: BLE001 - then it holds nothing
            log.warning("batch %d was given up: %s", flight.number, error)

    def _guarded(self, flight: Flight, meanwhile: Callable[[], None] = _nothing) -> list[Outcome]:
        """The batch's own turn. What fails fails alone: rows without an hPLM at once, others by halving."""
        leases: Leases = {}
        try:
            adapters = flight.adapters.result()
            leases, refused = adapters.value.leases, adapters.value.refused
            if not refused:
                return self._run(flight, adapters.value, adapters.seconds, meanwhile)
            served = [row for row in flight.rows if row.model.digest not in refused]
            left = iter(self._again(served))
            return [
                next(left)
                if row.model.digest not in refused
                else Failed(row, FAILED, refused[row.model.digest])
                for row in flight.rows
            ]
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not take the other rows down
            return self._blame(flight.rows, error)
        finally:
            self._desk.release(leases)

    def _again(self, rows: list[Row]) -> list[Outcome]:
        """Rows from the beginning, with nothing done ahead."""
        if not rows:
            return []
        number = self._pipeline.number()
        looked_up = Stage(retrieval(rows, self._halves), None)
        fetched = Stage(lambda: self._desk.fetch(number, rows), None, Adapters.bring_layers)
        return self._guarded(Flight(number, rows, looked_up, fetched))

    def _blame(self, rows: list[Row], error: Exception) -> list[Outcome]:
        """Half a batch at a time, until the row that fails stands alone."""
        if len(rows) > 1:
            log.warning("a batch of %d rows failed (%s), trying halves", len(rows), error)
            half = len(rows) // 2
            return self._again(rows[:half]) + self._again(rows[half:])
        if isinstance(error, SlotMismatchError):
            self.counters.slot_mismatches += 1
        log.error("a row of %s failed", rows[0].model, exc_info=error)
        return [Failed(rows[0], FAILED, "the hPLM could not be computed")]

    def _run(
        self, flight: Flight, adapters: Adapters, fetching_s: float, meanwhile: Callable[[], None]
    ) -> list[Outcome]:
        """The stages of the paper's figure 10, as far as no thread has done them ahead."""
        sought = flight.retrieval.result()
        aside = Aside(self._lead.layer, meanwhile)
        started = time.perf_counter()
        with self._pipeline.trace.span("compute", flight.number, "compute"):
            computed = self._compute(flight.rows, sought.value, adapters, aside)
        computing_s = time.perf_counter() - started - aside.seconds
        assert adapters.feed is not None
        fetching_s += adapters.feed.late_s
        self._lead.learn(ahead_s=sought.seconds + fetching_s, computing_s=computing_s)
        seconds = StageSeconds(sought.seconds, fetching_s, computing_s)
        return _outcomes(flight.rows, adapters.leases, computed, seconds)

    @torch.inference_mode()
    def _compute(self, rows: list[Row], sought: Sought, adapters: Adapters, aside: Aside) -> Computed:
        assert adapters.heads is not None
        upper, states = self.root.upper, filled(sought, self.root.upper.dtype)
        last = upper(states.states, states.mask, adapters.feed, aside.before)
        lengths = [len(ids) for ids in sought.texts.ids]
        logits = adapters.heads.to(upper.device).apply(last, states.mask)
        return Computed(states, _means(rows, last, states.mask), logits.rows(lengths))


def _outcomes(
    rows: list[Row],
    leases: Leases,
    computed: Computed,
    seconds: StageSeconds,
) -> list[Outcome]:
    states, logits = computed.states, computed.logits
    shares = _shares(rows, leases, seconds)
    tenants = len({row.model.tenant for row in rows})
    outcomes: list[Outcome] = []
    for at, row in enumerate(rows):
        mean = computed.means.get(at)
        if not all(bool(np.isfinite(found).all()) for found in (logits[at], mean) if found is not None):
            outcomes.append(Failed(row, FAILED, "the hPLM gave numbers that are not finite"))
            continue
        lease = leases[row.model.digest]
        hplm = lease.hplm()
        outcomes.append(
            Answered(
                row=row,
                logits=logits[at],
                used=lease.identity(row.model),
                task=hplm.task,
                labels=hplm.labels,
                threshold=hplm.threshold,
                hits=hits_of(states.counts[at]),
                missed=states.missed[at],
                seconds=shares[at],
                batch_rows=len(rows),
                batch_tenants=tenants,
                given=states.given[at],
                mean=mean,
            )
        )
    return outcomes


def _means(rows: list[Row], last: Tensor, mask: Tensor) -> dict[int, NDArray[np.float32]]:
    """The mean final state of each row that asks for it, by its place."""
    asking = [at for at, row in enumerate(rows) if row.embed]
    if not asking:
        return {}
    at = torch.tensor(asking, dtype=torch.int64, device=last.device)
    both = pooled(last.index_select(0, at), mask.index_select(0, at), "cls_mean")
    means = both[:, last.shape[2] :].cpu().numpy()
    return dict(zip(asking, means, strict=True))


def _shares(rows: list[Row], leases: Leases, seconds: StageSeconds) -> list[StageSeconds]:
    """What each row takes of a batch's time, by its tokens; but an hPLM that had to be loaded is on its own
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
