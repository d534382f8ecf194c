"""What answers are worth: BLEU and ROUGE-L, and how sure a difference of BLEU is."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

import numpy as np
import numpy.typing as npt
import sacrebleu
from sacrebleu.metrics.bleu import BLEU

from workers.training.generative.metrics import bleu, rouge_l

RESAMPLES: Final = 1000
ORDERS: Final = 4
"""Of n-grams."""
Statistics = npt.NDArray[np.float64]
"""[prompts, 10]: matching n-grams, n-grams of each order, the answer's length, the closest reference's."""


@dataclass(frozen=True, slots=True)
class Answers:
    """A text for each test prompt, and all references of each."""

    texts: Sequence[str]
    references: Sequence[Sequence[str]]

    @property
    def bleu(self) -> float:
        """Of the whole corpus, in points."""
        return 100 * bleu(self.references, self.texts)

    @property
    def rouge_l(self) -> float:
        """The mean over the prompts, in points."""
        return 100 * rouge_l(self.references, self.texts)

    def statistics(self) -> Statistics:
        """What the corpus's BLEU is made of, by prompt."""
        found = [
            sacrebleu.sentence_bleu(text, list(wanted))
            for text, wanted in zip(self.texts, self.references, strict=True)
        ]
        return np.array([[*one.counts, *one.totals, one.sys_len, one.ref_len] for one in found], dtype=float)


def bleu_difference_error(ones: Sequence[Answers], others: Sequence[Answers]) -> float:
    """The standard error of the difference of mean BLEU, in points, by bootstrap over the prompts.

    Source: Koehn 2004. ones, others: of several seeds, all for the same prompts.
    """
    left, right = ([each.statistics() for each in side] for side in (ones, others))
    draw, prompts = np.random.default_rng(0), len(left[0])
    differences = []
    for _ in range(RESAMPLES):
        chosen = draw.integers(prompts, size=prompts)
        means = [fmean(_bleu_of(each[chosen]) for each in side) for side in (left, right)]
        differences.append(means[0] - means[1])
    return float(np.std(differences))


def _bleu_of(statistics: Statistics) -> float:
    """Of a corpus of these, as `bleu` computes it, in points."""
    sums = statistics.sum(axis=0).astype(int).tolist()
    counts, totals, (length, wanted) = sums[:ORDERS], sums[ORDERS : 2 * ORDERS], sums[2 * ORDERS :]
    return float(BLEU.compute_bleu(counts, totals, length, wanted, smooth_method="exp").score)
