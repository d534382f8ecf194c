"""Chooses how the missing fragments of a text are filled, by expected error and measured cost."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from inference.hplm.encoder import FullLower
from inference.hplm.local_lower import LocalLower
from inference.hplm.miss_policy import MissHandling, MissPolicy

TIMED_FRAGMENTS = 256
TIMED_TOKENS = 64
TIMED_RUNS = 3
DEFAULT_EXACT_ERROR, DEFAULT_SHORTER_ERROR, DEFAULT_UNIGRAM_ERROR = 0.14, 0.25, 0.30
"""Unexplained variance at the cut, for a root whose report has no measurements."""
STAGES = ("mixed", "unexplained", "distilled", "closed_form")
"""Measurements in the report of a conversion, the preferred first: text with mixed levels before text of one
level."""


class FillMethod(IntEnum):
    """How the missing fragments of a text are filled."""

    FALLBACK = 0
    """By shorter fragments of the tables."""
    FRAGMENTS = 1
    """The local lower layers compute them."""
    FULL_CONTEXT = 2
    """Not at all: the root's own lower layers compute the text, with full context."""


@dataclass(frozen=True, slots=True)
class LevelErrors:
    """Unexplained variance (0 to 1) of a state at the cut whose fragment was found itself, by a shorter part,
    or by its unigram."""

    exact: float = DEFAULT_EXACT_ERROR
    shorter: float = DEFAULT_SHORTER_ERROR
    unigram: float = DEFAULT_UNIGRAM_ERROR

    @classmethod
    def from_reports(cls, *reports: Mapping[str, Any]) -> "LevelErrors":
        """The errors of the first report with measurements on held-out text.

        A report has them as `{stage: {level: {"cut": error}}}`. The error of a shorter part is
        the mean over those levels. Missing levels have the default error.
        """
        measured = (_measured_errors(report) for report in reports)
        found = next((levels for levels in measured if levels), None)
        if found is None:
            return cls()
        unigram = found.pop("unigram", DEFAULT_UNIGRAM_ERROR)
        exact = found.pop(max(found, key=_size), DEFAULT_EXACT_ERROR) if found else DEFAULT_EXACT_ERROR
        return cls(exact, float(np.mean([*found.values()])) if found else (exact + unigram) / 2, unigram)


def _measured_errors(report: Mapping[str, Any]) -> dict[str, float]:
    """The error by level, from the preferred stage that the report has."""
    empty: Mapping[str, Any] = {}
    levels = next((report[stage] for stage in STAGES if isinstance(report.get(stage), Mapping)), empty)
    return {
        name: float(figures["cut"])
        for name, figures in levels.items()
        if isinstance(figures, Mapping) and isinstance(figures.get("cut"), int | float)
    }


def _size(level: str) -> int:
    """The number of tokens of a level: "5-gram", "trigram", "left_bigram", "unigram"."""
    words = {"unigram": 1, "left_bigram": 2, "right_bigram": 2, "trigram": 3}
    head = level.partition("-")[0]
    return words.get(level) or (int(head) if head.isdigit() else 2)


def expected_error(shares: NDArray[np.floating[Any]], errors: LevelErrors) -> NDArray[np.float64]:
    """Expected unexplained variance [B] float64 of texts.

    shares [B, 3]: of a text's fragments that were found themselves, by a shorter part, by their unigram.
    """
    # Not a matrix product: its rounding depends on the number of texts.
    expected: NDArray[np.float64] = (shares * [errors.exact, errors.shorter, errors.unigram]).sum(axis=1)
    return expected


@dataclass(frozen=True, slots=True)
class CostModel:
    """Milliseconds to compute a fragment, and a token with full context."""

    fragment_ms: float
    token_ms: float

    @classmethod
    def nominal(cls, n: int) -> "CostModel":
        """The model without measurements: a fragment costs as much as n tokens."""
        return cls(float(n), 1.0)

    @classmethod
    @torch.inference_mode()
    def measure(cls, local: LocalLower, full: FullLower, *, n: int, tokens: int) -> "CostModel":
        """Measure both on the layers' device with texts of up to `tokens` tokens: the best of TIMED_RUNS."""
        device = full.word_embeddings.device
        vocabulary = len(full.word_embeddings)
        generator = torch.Generator().manual_seed(0)
        fragments = torch.randint(vocabulary, (TIMED_FRAGMENTS, n), generator=generator).to(device)
        length = min(tokens, TIMED_TOKENS)
        ids = torch.randint(vocabulary, (TIMED_FRAGMENTS * n // length + 1, length), generator=generator)
        ids = ids.to(device)
        mask = torch.ones_like(ids, dtype=torch.bool)
        local(fragments), full(ids, mask)  # warm up
        fragment_s = min(_seconds(lambda: local(fragments), device) for _ in range(TIMED_RUNS))
        token_s = min(_seconds(lambda: full(ids, mask), device) for _ in range(TIMED_RUNS))
        return cls(1000 * fragment_s / TIMED_FRAGMENTS, 1000 * token_s / ids.numel())


def _seconds(work: Any, device: torch.device) -> float:
    begun = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - begun


def choose_methods(
    counts: NDArray[np.int64],
    misses: Sequence[MissHandling],
    errors: LevelErrors,
    costs: CostModel,
    *,
    has_local: bool = True,
    has_full: bool = True,
) -> NDArray[np.int8]:
    """The `FillMethod` [B] int8 of each text.

    counts [B, 3]: how many of a text's fragments were found themselves, by a shorter part, by their unigram.
    """
    lengths = counts.sum(axis=1)
    missed = counts[:, 1] + counts[:, 2]
    error = expected_error(counts / np.maximum(lengths, 1)[:, None], errors)
    tolerance = np.array([handling.tolerance for handling in misses])
    auto = np.array([handling.policy is MissPolicy.AUTO for handling in misses])
    always = np.array([handling.policy is MissPolicy.COMPUTE for handling in misses])
    computing = (missed > 0) & (always | (auto & (error > tolerance)))
    cheaper = lengths * costs.token_ms < missed * costs.fragment_ms
    full_context = computing & auto & (cheaper | (errors.exact > tolerance)) & has_full
    if not has_local:
        full_context |= computing & has_full
    methods = np.full(len(counts), FillMethod.FALLBACK, dtype=np.int8)
    methods[computing & has_local] = FillMethod.FRAGMENTS
    methods[full_context] = FillMethod.FULL_CONTEXT
    return methods
