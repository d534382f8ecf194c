"""What a text that a PLOT answers in part should get: what it costs to compute, and what it costs not to."""

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
# Shares of variance left unexplained at the cut, for a root whose report names none.
DEFAULT_FULL_ERROR, DEFAULT_PART_ERROR, DEFAULT_UNIGRAM_ERROR = 0.14, 0.25, 0.30
# What conversions call their measurements: of text read as a table gives it, before those of one level
# throughout, newest first.
STAGES = ("mixed", "unexplained", "distilled", "closed_form")


class FillMethod(IntEnum):
    """How the states of one text at the cut are made."""

    LOOK_UP = 0
    FRAGMENTS = 1
    WHOLE = 2


@dataclass(frozen=True, slots=True)
class LevelErrors:
    """Share of variance that a state at the cut leaves unexplained when its text was read at one level:
    the fragment itself, a part of it, its centre alone."""

    full: float = DEFAULT_FULL_ERROR
    part: float = DEFAULT_PART_ERROR
    single: float = DEFAULT_UNIGRAM_ERROR

    @classmethod
    def from_reports(cls, *reports: Mapping[str, Any]) -> "LevelErrors":
        """From the first report that says what was measured on held-out text: `{stage: {level: {"cut":
        share}}}`. Of the levels between the fragment itself and its uni-gram the mean counts; what is absent
        has its usual figure."""
        measured = (_measured(report) for report in reports)
        found = next((levels for levels in measured if levels), None)
        if found is None:
            return cls()
        single = found.pop("unigram", DEFAULT_UNIGRAM_ERROR)
        full = found.pop(max(found, key=_size), DEFAULT_FULL_ERROR) if found else DEFAULT_FULL_ERROR
        return cls(full, float(np.mean([*found.values()])) if found else (full + single) / 2, single)


def _measured(report: Mapping[str, Any]) -> dict[str, float]:
    """The share by level, from the last stage that was measured."""
    empty: Mapping[str, Any] = {}
    levels = next((report[stage] for stage in STAGES if isinstance(report.get(stage), Mapping)), empty)
    return {
        name: float(figures["cut"])
        for name, figures in levels.items()
        if isinstance(figures, Mapping) and isinstance(figures.get("cut"), int | float)
    }


def _size(level: str) -> int:
    """How many tokens a level of that name covers: "5-gram", "trigram", "left_bigram", "unigram"."""
    words = {"unigram": 1, "left_bigram": 2, "right_bigram": 2, "trigram": 3}
    head = level.partition("-")[0]
    return words.get(level) or (int(head) if head.isdigit() else 2)


def expected_error(shares: NDArray[np.floating[Any]], errors: LevelErrors) -> NDArray[np.float64]:
    """Expected unexplained share [B] of texts whose fragments were answered in the shares [B, 3]: by
    themselves, by parts, by uni-grams."""
    # A matrix product would round a text's sum by how many others there are.
    expected: NDArray[np.float64] = (shares * [errors.full, errors.part, errors.single]).sum(axis=1)
    return expected


@dataclass(frozen=True, slots=True)
class CostModel:
    """Milliseconds that one fragment costs, and one token of a text that is computed whole."""

    fragment_ms: float
    token_ms: float

    @classmethod
    def nominal(cls, n: int) -> "CostModel":
        """A fragment costs its n tokens: where nothing was measured."""
        return cls(float(n), 1.0)

    @classmethod
    @torch.inference_mode()
    def measure(cls, local: LocalLower, full: FullLower, *, n: int, tokens: int) -> "CostModel":
        """Time both on this machine, with texts of at most `tokens` tokens; the best of a few runs counts."""
        device = full.word_embeddings.device
        vocabulary = len(full.word_embeddings)
        draw = torch.Generator().manual_seed(0)
        fragments = torch.randint(vocabulary, (TIMED_FRAGMENTS, n), generator=draw).to(device)
        length = min(tokens, TIMED_TOKENS)
        ids = torch.randint(vocabulary, (TIMED_FRAGMENTS * n // length + 1, length), generator=draw)
        ids = ids.to(device)
        mask = torch.ones_like(ids, dtype=torch.bool)
        local(fragments), full(ids, mask)  # the first time is slower
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
    policies: Sequence[MissHandling],
    errors: LevelErrors,
    costs: CostModel,
    *,
    has_local: bool = True,
    has_full: bool = True,
) -> NDArray[np.int8]:
    """The `FillMethod` [B] of each text, from how many of its fragments were found whole, by parts and by
    uni-grams (counts [B, 3]) and the policy that holds for it."""
    lengths = counts.sum(axis=1)
    missed = counts[:, 1] + counts[:, 2]
    now = expected_error(counts / np.maximum(lengths, 1)[:, None], errors)
    tolerance = np.array([policy.tolerance for policy in policies])
    auto = np.array([policy.policy is MissPolicy.AUTO for policy in policies])
    always = np.array([policy.policy is MissPolicy.COMPUTE for policy in policies])
    computing = (missed > 0) & (always | (auto & (now > tolerance)))
    cheaper = lengths * costs.token_ms < missed * costs.fragment_ms
    whole = computing & auto & (cheaper | (errors.full > tolerance)) & has_full
    if not has_local:
        whole |= computing & has_full
    ways = np.full(len(counts), FillMethod.LOOK_UP, dtype=np.int8)
    ways[computing & has_local] = FillMethod.FRAGMENTS
    ways[whole] = FillMethod.WHOLE
    return ways
