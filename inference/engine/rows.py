"""The rows of a batch and their outcomes: token ids in, logits out."""

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from inference.cascade.dispatcher import Coverage, Dispatcher, Level
from inference.hplm.root_config import RootConfig


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """The exact version of a model that a row asks for, or that computed it."""

    tenant: str
    hplm: str
    version: int
    digest: str

    def __str__(self) -> str:
        return f"{self.tenant}/{self.hplm}:{self.version}"


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One text, or pair of texts. ``key`` is the caller's own; ids [T] int64 with the boundary tokens, and
    their types [T] int64; ``chain`` names the PLOT chain that the model was trained on; ``level`` says how
    its lower layers are had; ``dispatcher`` decides whether an answer from the tables goes on to the level
    FULL, by ``text_hash`` where chance does (None: it never does); ``explain``: report the table
    level of each token; ``embed``: return its embedding, too; ``outputs_at`` [W] int64: the tokens
    whose outputs are returned, of a task with outputs for each (None: all). ``work``: the tokens
    that would take as long at the level TABLE."""

    key: str
    ids: NDArray[np.int64]
    types: NDArray[np.int64]
    model: ModelIdentity
    chain: str
    level: Level
    work: int
    dispatcher: Dispatcher | None = None
    text_hash: bytes = b""
    explain: bool = False
    embed: bool = False
    outputs_at: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def escalated(self, config: RootConfig) -> "Row":
        """The same text at the level FULL."""
        work = work_of(len(self), Level.FULL, config)
        return replace(self, level=Level.FULL, dispatcher=None, work=work)


def work_of(tokens: int, level: Level, config: RootConfig) -> int:
    """The tokens that would take as long at the level TABLE, where only the upper layers are computed."""
    layers = config.layers if level is Level.FULL else config.upper
    return math.ceil(tokens * layers / config.upper)


@dataclass(frozen=True, slots=True)
class StageSeconds:
    """Time by stage of the pipeline."""

    retrieval: float = 0.0
    adapter_load: float = 0.0
    compute: float = 0.0

    def __add__(self, other: Self) -> "StageSeconds":
        return StageSeconds(
            self.retrieval + other.retrieval,
            self.adapter_load + other.adapter_load,
            self.compute + other.compute,
        )

    def share(self, part: float) -> "StageSeconds":
        """``part`` of each stage."""
        return StageSeconds(self.retrieval * part, self.adapter_load * part, self.compute * part)


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """A row that was computed. logits fp32, [C] of a task with one answer for a text, [T, C] or [W, C] of one
    with an answer for each token; ``used`` is the version in the slot that computed them; ``coverage`` says
    what the tables had of it; ``seconds`` are the row's share of its batch; ``given`` [T] uint8 is what each
    token was given (levels of `hplm.plot`, or COMPUTED), and ``embedding`` [w] fp32 what the root makes of
    its final states (`Root.sentence`), both where that was asked for. ``escalates``: its dispatcher sends it
    on to the level FULL."""

    row: Row
    logits: NDArray[np.float32]
    used: ModelIdentity
    coverage: Coverage
    seconds: StageSeconds
    batch_rows: int
    batch_tenants: int
    given: NDArray[np.uint8] | None = None
    embedding: NDArray[np.float32] | None = None
    escalates: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Failed:
    """A row that could not be computed, and why: a code of the product's error table and a sentence."""

    row: Row
    code: str
    message: str


Outcome = Answered | Failed
