"""A tiny world with an engine on top."""

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from inference.cascade.dispatcher import Level
from inference.engine.adapters import PackedHplm
from inference.engine.device_pets import DevicePets, copy_pinned
from inference.engine.executor import Executor
from inference.engine.pet_pool import PetPool
from inference.engine.pipeline import Pipeline
from inference.engine.rows import Answered, ModelIdentity, Outcome, Row, work_of
from inference.errors import HplmError
from inference.hplm import fragments
from inference.hplm.compose import compose
from inference.hplm.heads import Head
from inference.hplm.hplm import Hplm
from inference.hplm.plot import PlotTable
from inference.hplm.plot_lookup import LowerLayers
from inference.hplm.root import Root
from inference.hplm.row_cache import RowCache
from inference.text.tasks import TASKS
from tests.reference_hplm import outputs_from_states, reference_outputs
from tests.unit.plot_lookups import looked_up
from tests.unit.tiny_world import TinyHplm, TinyWorld, tiny_world

CPU = torch.device("cpu")


class EngineWorld:
    """Ten models of two tenants, all tasks and kinds of PET, or those that ``make`` gives, with and without a
    domain between them and the root; an executor in any number format; and the reference to compare with."""

    def __init__(
        self, folder: Path, make: Callable[[Root], Sequence[Hplm]] | None = None, **checkpoint: Any
    ) -> None:
        self.tiny: TinyWorld = tiny_world(folder, hplms=10, tasks=TASKS, make=make, **checkpoint)
        self.chains = {name_of(hplm): self.tiny.chain(hplm) for hplm in self.tiny.hplms}
        self.replaced: dict[str, Hplm | Exception] = {}
        self._lower_layers: dict[str, LowerLayers] = {}

    def executor(
        self,
        dtype: torch.dtype = torch.float32,
        *,
        budget_bytes: int = 1 << 30,
        pipeline: Pipeline | None = None,
        device: torch.device = CPU,
        pet_bytes: int = 1 << 30,
        hot: bool = False,
    ) -> Executor:
        """An executor whose pool loads from this world's files, or gives what ``replaced`` says.
        pet_bytes: of the PETs that stay on an accelerator. hot: all rows of the tables are there, too."""
        root = Root.load(self.tiny.folder("root", self.tiny.root_digest), device, dtype)

        def load(model: ModelIdentity) -> PackedHplm:
            found = self.replaced.get(model.digest)
            if isinstance(found, Exception):
                raise found
            if found is None:
                found = Hplm.load(self.tiny.folder("hplm", model.digest))
            return PackedHplm.of(found, dtype)

        on_device = None if device == CPU else DevicePets(copy_pinned(device), pet_bytes)
        pool = PetPool(load, budget_bytes, on_device)
        return Executor(root, TinyHalves(self, dtype, device, hot=hot), pool, pipeline=pipeline)

    def row(self, number: int, text: str, level: Level = Level.TABLE) -> Row:
        """A row of model ``number`` for ``text``."""
        hplm = self.tiny.hplms[number]
        # The second text of a pair is as good as any other.
        encoding = self.tiny.root.tokenizer.encode(text, text[::-1] if hplm.model.pairs else None)
        work = work_of(len(encoding), level, self.tiny.root.config)
        return Row(text, encoding.ids, encoding.types, identity_of(hplm), name_of(hplm), level, work)

    def hplm(self, row: Row) -> Hplm:
        """The model that the row asks."""
        return next(hplm.model for hplm in self.tiny.hplms if identity_of(hplm) == row.model)

    def expected(self, row: Row) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        """What the reference says about the row."""
        hplm = self.hplm(row)
        if row.level is Level.TABLE:
            return reference_outputs(self.tiny.root, self.chains[row.chain], hplm, row.ids, row.types)
        states = states_alone(self._half(row.chain), row.ids, row.types, row.level)
        return outputs_from_states(self.tiny.root, hplm, states)

    def _half(self, chain: str) -> LowerLayers:
        """The lower half that the reference computes with, read once."""
        if chain not in self._lower_layers:
            full = self.tiny.root.checkpoint_lower()
            self._lower_layers[chain] = LowerLayers(self.chains[chain], full)
        return self._lower_layers[chain]

    def differences(self, outcomes: Sequence[Outcome]) -> list[float]:
        """Largest difference of each answered row from the reference, relative to the size of what its head
        gives: a value near zero has no relative difference to speak of."""
        found = []
        for outcome in outcomes:
            assert isinstance(outcome, Answered), outcome
            expected = self.expected(outcome.row)
            assert outcome.logits.shape == expected.shape
            assert outcome.used == outcome.row.model
            size = scale_of(self.hplm(outcome.row).head)
            found.append(float(np.abs(outcome.logits - expected).max()) / size)
        return found


class TinyHalves:
    """The lower halves of a world, with everything where and in the types that a worker has them in."""

    def __init__(
        self, world: EngineWorld, dtype: torch.dtype, device: torch.device = CPU, *, hot: bool = False
    ) -> None:
        full = copy.deepcopy(world.tiny.root.checkpoint_lower()).to(device, dtype)
        self._tables, self._full = {}, {}
        for name, chain in world.chains.items():
            parts = chain.composition.to(device).with_context_dtype(dtype)
            caches = [all_rows(table, device) for table in chain.tables] if hot else ()
            self._tables[name] = LowerLayers(chain, None, parts, device, caches)
            self._full[name] = LowerLayers(chain, full, parts, device, caches)

    def for_chain(self, chain: str, *, full: bool) -> LowerLayers:
        return (self._full if full else self._tables)[chain]


def all_rows(table: PlotTable, device: torch.device) -> RowCache:
    """All rows of a table on the device."""
    cache = RowCache(table, len(table), device)
    cache.fill()
    return cache


def answered(executor: Executor, *rows: Row) -> list[Answered]:
    """The answers of one batch; none may fail."""
    outcomes = executor.step(rows)
    assert all(isinstance(outcome, Answered) for outcome in outcomes), outcomes
    return [outcome for outcome in outcomes if isinstance(outcome, Answered)]


def identity_of(hplm: TinyHplm) -> ModelIdentity:
    return ModelIdentity(hplm.tenant, hplm.hplm, hplm.version, hplm.digest)


def name_of(hplm: TinyHplm) -> str:
    """The name of a model's chain."""
    return ":".join(hplm.plots)


def scale_of(head: Head) -> float:
    """The size of its outputs for states whose numbers have a mean square of one."""
    return float(head.weight.square().sum(1).mean().sqrt())


def damaged() -> HplmError:
    return HplmError("corrupt_artifact", "hplm.safetensors is damaged")


Ids = NDArray[np.int64]


@torch.no_grad()
def states_alone(half: LowerLayers, ids: Ids, types: Ids, level: Level) -> Tensor:
    """States [T, d] of ids and types [T] at the level."""
    if level is Level.TABLE:
        return _by_fragment(half, ids, types)
    assert half.full is not None
    mask = torch.ones(1, len(ids), dtype=torch.bool)
    whole: Tensor = half.full(torch.from_numpy(ids)[None], mask, torch.from_numpy(types)[None])[0]
    return whole


def _by_fragment(half: LowerLayers, ids: Ids, types: Ids) -> Tensor:
    """Each fragment looked up by itself."""
    found = [
        looked_up(half.tables, fragment[None])
        for fragment in fragments.extract(ids, half.tables.missing_id, half.tables.n)
    ]
    rows = torch.from_numpy(np.concatenate([one.vectors for one in found])).float()
    levels = torch.from_numpy(np.concatenate([one.level for one in found]).astype(np.int64))
    parts = half.composition or half.tables.composition
    lengths, of_types = torch.tensor([len(ids)]), torch.from_numpy(types)[None]
    return compose(rows[None], lengths, parts, of_types, levels[None])[0].detach()
