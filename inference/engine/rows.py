"""What goes into a step of the engine and what comes out: token ids in, logits out."""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

Task = Literal["classification", "tagging"]


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """Exactly which version of an hPLM: asked for, or really used."""

    tenant: str
    hplm: str
    version: int
    digest: str

    def __str__(self) -> str:
        return f"{self.tenant}/{self.hplm}:{self.version}"


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One text. ``key`` is the caller's own; ids [T] int64 with the boundary tokens; ``chain`` names the PLOT
    chain that the hPLM was trained on."""

    key: str
    ids: NDArray[np.int64]
    model: ModelIdentity
    chain: str

    def __len__(self) -> int:
        return len(self.ids)


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


@dataclass(frozen=True, slots=True)
class Hits:
    """How many fragments each level of the PLOT answered."""

    trigram: int = 0
    bigram: int = 0
    unigram: int = 0

    def __add__(self, other: Self) -> "Hits":
        return Hits(self.trigram + other.trigram, self.bigram + other.bigram, self.unigram + other.unigram)


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """A row that was computed. logits fp32, [C] of a classification, [T, C] of a tagging; ``used``, ``task``
    and ``labels`` are those of the slot that computed them; ``seconds`` are the row's share of its batch."""

    row: Row
    logits: NDArray[np.float32]
    used: ModelIdentity
    task: Task
    labels: tuple[str, ...]
    hits: Hits
    seconds: StageSeconds
    batch_rows: int
    batch_tenants: int


@dataclass(frozen=True, slots=True, eq=False)
class Failed:
    """A row that could not be computed, and why: a code of the product's error table and a sentence."""

    row: Row
    code: str
    message: str


Outcome = Answered | Failed
