"""A tiny world with an engine on top."""

import copy
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from inference.engine.executor import Executor
from inference.engine.packed import PackedHplm
from inference.engine.pipeline import Pipeline
from inference.engine.residency import HplmCache
from inference.engine.rows import Answered, ModelIdentity, Outcome, Row
from inference.hplm.errors import HplmError
from inference.hplm.hplm import TASKS, Hplm
from inference.hplm.local_lower import LocalLower
from inference.hplm.miss_policy import Misses, MissPolicy
from inference.hplm.misses import LowerHalf
from inference.hplm.reference import outputs_alone, outputs_from
from inference.hplm.root import Root
from tests.unit.engine.alone import FALLBACK, states_alone
from tests.unit.tiny_world import TinyHplm, TinyWorld, tiny_world


class EngineWorld:
    """Ten hPLMs of two tenants, all tasks and kinds of PET, with and without a domain between them and the
    root; an executor in either number format; and the reference to compare with."""

    def __init__(self, folder: Path) -> None:
        self.tiny: TinyWorld = tiny_world(folder, hplms=10, tasks=TASKS)
        self.chains = {name_of(hplm): self.tiny.chain(hplm) for hplm in self.tiny.hplms}
        self.lowers = {name_of(hplm): hplm.lower for hplm in self.tiny.hplms}
        self.replaced: dict[str, Hplm | Exception] = {}

    def executor(
        self,
        dtype: torch.dtype = torch.float32,
        *,
        budget_bytes: int = 1 << 30,
        pipeline: Pipeline | None = None,
    ) -> Executor:
        """An executor whose cache loads from this world's files, or gives what ``replaced`` says."""
        root = Root.load(self.tiny.folder("root", self.tiny.root_digest), "cpu", dtype)

        def load(model: ModelIdentity) -> PackedHplm:
            found = self.replaced.get(model.digest)
            if isinstance(found, Exception):
                raise found
            if found is None:
                found = Hplm.load(self.tiny.folder("hplm", model.digest))
            return PackedHplm.of(found, dtype)

        cache = HplmCache(load, budget_bytes=budget_bytes)
        return Executor(root, TinyHalves(self, dtype), cache, pipeline=pipeline)

    def local(self, chain: str) -> LocalLower:
        """The local lower layers behind a chain."""
        return LocalLower.load(self.tiny.folder("lower", self.lowers[chain]))

    def row(self, number: int, text: str, misses: Misses = FALLBACK) -> Row:
        """A row of hPLM ``number`` for ``text``."""
        hplm = self.tiny.hplms[number]
        # The second text of a pair is as good as any other.
        encoding = self.tiny.root.tokenizer.encode(text, text[::-1] if hplm.model.pairs else None)
        return Row(text, encoding.ids, encoding.types, identity_of(hplm), name_of(hplm), misses)

    def expected(self, row: Row) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        """What the reference says about the row."""
        hplm = next(hplm for hplm in self.tiny.hplms if identity_of(hplm) == row.model)
        if row.misses.policy is MissPolicy.FALLBACK:
            return outputs_alone(self.tiny.root, self.chains[row.chain], hplm.model, row.ids, row.types)
        half = LowerHalf(self.chains[row.chain], self.local(row.chain), self.tiny.root.checkpoint_lower())
        states = states_alone(half, row.ids, row.types, row.misses)
        return outputs_from(self.tiny.root, hplm.model, states)

    def differences(self, outcomes: Sequence[Outcome]) -> list[float]:
        """Largest difference of each answered row from the reference, relative to its largest logit; a value
        near zero has no relative difference to speak of."""
        found = []
        for outcome in outcomes:
            assert isinstance(outcome, Answered), outcome
            expected = self.expected(outcome.row)
            assert outcome.logits.shape == expected.shape
            assert outcome.used == outcome.row.model
            found.append(float(np.abs(outcome.logits - expected).max() / max(1, np.abs(expected).max())))
        return found


class TinyHalves:
    """The lower halves of a world, with everything in memory."""

    def __init__(self, world: EngineWorld, dtype: torch.dtype) -> None:
        full = world.tiny.root.checkpoint_lower()
        self._full = copy.deepcopy(full).to(dtype)
        self._locals = {chain: world.local(chain).to(dtype) for chain in world.chains}
        self._chains = world.chains

    def half(self, chain: str, *, computing: bool) -> LowerHalf:
        if not computing:
            return LowerHalf(self._chains[chain])
        return LowerHalf(self._chains[chain], self._locals[chain], self._full)


def identity_of(hplm: TinyHplm) -> ModelIdentity:
    return ModelIdentity(hplm.tenant, hplm.hplm, hplm.version, hplm.digest)


def name_of(hplm: TinyHplm) -> str:
    """The name of an hPLM's chain."""
    return ":".join(hplm.plots)


def damaged() -> HplmError:
    return HplmError("corrupt_artifact", "hplm.safetensors is damaged")
