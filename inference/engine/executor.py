"""One step: a batch mixed over tenants, domains and tasks through the shared upper layers of one root."""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from inference.engine.residency import HplmCache, Lease, SlotMismatchError
from inference.engine.retrieval import LowerHalves, Retrieved, retrieve
from inference.engine.rows import Answered, Failed, Outcome, Row, StageSeconds
from inference.hplm.errors import HplmError
from inference.hplm.heads import BatchedHeads
from inference.hplm.pet_batch import BatchedPets
from inference.hplm.pets import Shape
from inference.hplm.root import Root

log = logging.getLogger(__name__)

FAILED = "inference_failed"
Leases = Mapping[str, Lease]


@dataclass(slots=True)
class Counters:
    """What one or several executors have done so far. ``slot_mismatches`` must stay 0."""

    batches: int = 0
    rows: int = 0
    failed: int = 0
    slot_mismatches: int = 0


class Executor:
    """Runs batches of one root. ``halves`` is asked at every step: the caller may add to it and take away."""

    def __init__(
        self, root: Root, halves: LowerHalves, cache: HplmCache, counters: Counters | None = None
    ) -> None:
        self.root = root
        self.counters = counters or Counters()
        self._halves = halves
        self._cache = cache

    def step(self, rows: Sequence[Row]) -> list[Outcome]:
        """Compute rows, at least one, all of this root; one outcome per row, in order.

        A row whose hPLM cannot be loaded, or whose numbers are not finite, fails alone. A batch that fails
        as a whole is cut in two until what is to blame stands alone.
        """
        started = time.perf_counter()
        leases, refused = self._acquire(rows)
        load_s = time.perf_counter() - started
        try:
            wanted = [row for row in rows if row.model.digest in leases]
            outcomes = iter(self._isolate(wanted, leases, load_s))
        finally:
            for lease in leases.values():
                self._cache.release(lease)
        done = [
            next(outcomes) if row.model.digest in leases else Failed(row, FAILED, refused[row.model.digest])
            for row in rows
        ]
        self.counters.batches += 1
        self.counters.rows += len(rows)
        self.counters.failed += sum(isinstance(outcome, Failed) for outcome in done)
        return done

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

    def _acquire(self, rows: Sequence[Row]) -> tuple[dict[str, Lease], dict[str, str]]:
        """A lease for each digest that can be had, and for the others the reason."""
        leases: dict[str, Lease] = {}
        refused: dict[str, str] = {}
        for model in {row.model.digest: row.model for row in rows}.values():
            try:
                lease = self._cache.acquire(model)
            except HplmError as error:
                log.error("%s cannot be loaded: %s", model, error)
                refused[model.digest] = f"the hPLM cannot be loaded: {error.message}"
                continue
            except Exception:  # one tenant's file must not take the other rows down
                log.exception("%s cannot be loaded", model)
                refused[model.digest] = "the hPLM cannot be loaded"
                continue
            if self._fits(lease):
                leases[model.digest] = lease
            else:
                self._cache.release(lease)
                refused[model.digest] = "the hPLM does not fit the shape of its root"
        return leases, refused

    def _fits(self, lease: Lease) -> bool:
        config = self.root.config
        return lease.hplm().pet.shape == Shape(config.upper, config.hidden, config.architecture.inner)

    def _isolate(self, rows: list[Row], leases: Leases, load_s: float) -> list[Outcome]:
        """``_run``, again in halves where it raises."""
        if not rows:
            return []
        try:
            return self._run(rows, leases, load_s)
        except Exception as error:  # whatever it is, it must not take the other rows down
            if len(rows) > 1:
                log.warning("a batch of %d rows failed (%s), trying halves", len(rows), error)
                half = len(rows) // 2
                first = self._isolate(rows[:half], leases, load_s / 2)
                return first + self._isolate(rows[half:], leases, load_s / 2)
            if isinstance(error, SlotMismatchError):
                self.counters.slot_mismatches += 1
            log.exception("a row of %s failed", rows[0].model)
            return [Failed(rows[0], FAILED, "the hPLM could not be computed")]

    def _run(self, rows: list[Row], leases: Leases, load_s: float) -> list[Outcome]:
        """Retrieve, stack PETs, compute: the stages of the paper's figure 10, one after the other."""
        clock = time.perf_counter
        begun = clock()
        batch = retrieve(rows, self._halves)
        retrieved = clock()
        pets, heads = _stack(rows, leases)
        stacked = clock()
        logits = self._compute(batch, pets, heads)
        computed = clock()
        seconds = StageSeconds(retrieved - begun, load_s + stacked - retrieved, computed - stacked)
        return self._outcomes(rows, leases, batch, logits, seconds)

    @torch.inference_mode()
    def _compute(self, batch: Retrieved, pets: BatchedPets, heads: BatchedHeads) -> list[NDArray[np.float32]]:
        upper = self.root.upper
        states, mask = batch.states.to(upper.device), batch.mask.to(upper.device)
        return heads.apply(upper(states, mask, pets), mask).rows(mask.sum(1).tolist())

    def _outcomes(
        self,
        rows: list[Row],
        leases: Leases,
        batch: Retrieved,
        logits: list[NDArray[np.float32]],
        seconds: StageSeconds,
    ) -> list[Outcome]:
        tokens = sum(len(row) for row in rows)
        tenants = len({row.model.tenant for row in rows})
        outcomes: list[Outcome] = []
        for at, row in enumerate(rows):
            if not bool(np.isfinite(logits[at]).all()):
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
                    hits=batch.hits[at],
                    missed=batch.missed[at],
                    seconds=seconds.share(len(row) / tokens),
                    batch_rows=len(rows),
                    batch_tenants=tenants,
                )
            )
        return outcomes


def _stack(rows: Sequence[Row], leases: Leases) -> tuple[BatchedPets, BatchedHeads]:
    """The PETs and heads of the batch side by side, each hPLM once, and which row uses which."""
    places: dict[str, int] = {}
    index = [places.setdefault(row.model.digest, len(places)) for row in rows]
    hplms = [leases[digest].hplm() for digest in places]
    pets = BatchedPets.stack([hplm.pet for hplm in hplms], index)
    return pets, BatchedHeads.stack([hplm.head for hplm in hplms], index)
