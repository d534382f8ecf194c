"""How long requests waited: percentiles, figures and pictures."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Row
from benchmarks.serving.arrivals import Arrivals
from benchmarks.serving.curves import curves

PRODUCT = "hBERT"
OF_THEIR_OWN = ("hBERT-adapter", "dedicated")
"""The other schemes that give every tenant a model of its own."""
BURST = "burst"
Waits = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """What is asked: of which kind, as which share of what saturates the product, by how many tenants, and
    when."""

    kind: str
    load: float
    tenants: int
    arrivals: Arrivals

    @property
    def name(self) -> str:
        """The same in every repeat."""
        return f"{self.kind}, {self.load:g}"


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A pattern that was asked of a scheme: the seconds [N] that each request waited, inf where it was not
    answered in time."""

    pattern: Pattern
    scheme: str
    waits: Waits


class Found:
    """The runs of all repeats, and the deadline in seconds: a request that is not answered has waited so
    long."""

    def __init__(self, runs: Sequence[Run], deadline_s: float) -> None:
        self.patterns = list(dict.fromkeys(run.pattern.name for run in runs))
        self.schemes = list(dict.fromkeys(run.scheme for run in runs))
        self._runs, self._deadline_s = runs, deadline_s

    def of(self, pattern: str, scheme: str) -> list[Run]:
        """Those of each repeat."""
        return [run for run in self._runs if (run.pattern.name, run.scheme) == (pattern, scheme)]

    def table(self) -> list[Row]:
        """A row for each pattern and scheme: medians over the repeats, and how far their p99 lie apart."""
        return [self._row(pattern, scheme) for pattern in self.patterns for scheme in self.schemes]

    def figures(self) -> dict[str, float]:
        """Of the burst: the p99 of the best other scheme over the product's, each repeat's own, and of these
        the median; and of all that the product was asked, the share that it missed."""
        burst = next(name for name in self.patterns if name.startswith(BURST))
        others = zip(*(self.ms(burst, other, 99) for other in OF_THEIR_OWN), strict=True)
        pairs = zip(others, self.ms(burst, PRODUCT, 99), strict=True)
        ratios = [min(each) / own for each, own in pairs]
        return {
            "p99_ratio_burst": median(ratios),
            "p99_ratio_burst_least": min(ratios),
            "p99_ratio_burst_greatest": max(ratios),
            "missed": missed([run for run in self._runs if run.scheme == PRODUCT]),
        }

    def ms(self, pattern: str, scheme: str, q: float) -> list[float]:
        """Of each repeat, the milliseconds within which q % were answered."""
        return [
            1000 * float(np.percentile(self._clipped(run), q, method="inverted_cdf"))
            for run in self.of(pattern, scheme)
        ]

    def draw(self, folder: Path) -> None:
        """Figures 12 and 13."""
        folder.mkdir(parents=True, exist_ok=True)
        burst = next(name for name in self.patterns if name.startswith(BURST))
        steady = [name for name in self.patterns if name != burst]
        tails = {
            scheme: [(self._tenants(name, scheme), median(self.ms(name, scheme, 99))) for name in steady]
            for scheme in self.schemes
        }
        answered = {scheme: _distribution(self.of(burst, scheme)) for scheme in self.schemes}
        pictures = {
            "tenants": curves(tails, title="p99 by tenants", x="tenants", y="p99, ms", tall=True),
            "burst": curves(answered, title="Under a burst", x="ms", y="share answered", tall=False),
        }
        for name, text in pictures.items():
            (folder / f"response_time_{name}.svg").write_text(text, encoding="utf-8")

    def _row(self, pattern: str, scheme: str) -> Row:
        runs = self.of(pattern, scheme)
        tails = self.ms(pattern, scheme, 99)
        return {
            "asked, load": pattern,
            "tenants": round(self._tenants(pattern, scheme)),
            "requests": sum(len(run.waits) for run in runs),
            "scheme": scheme,
            "p50 ms": median(self.ms(pattern, scheme, 50)),
            "p95 ms": median(self.ms(pattern, scheme, 95)),
            "p99 ms": median(tails),
            "p99 least": min(tails),
            "p99 greatest": max(tails),
            "missed %": 100 * missed(runs),
        }

    def _tenants(self, pattern: str, scheme: str) -> float:
        return median(run.pattern.tenants for run in self.of(pattern, scheme))

    def _clipped(self, run: Run) -> Waits:
        return np.minimum(run.waits, self._deadline_s)


def missed(runs: Sequence[Run]) -> float:
    """The share that was not answered in time."""
    return float(np.isinf(np.concatenate([run.waits for run in runs])).mean())


def _distribution(runs: Sequence[Run]) -> list[tuple[float, float]]:
    """Milliseconds, and the share of all requests that were answered within them; at most 200 points."""
    waits = np.concatenate([run.waits for run in runs])
    answered = np.sort(waits[np.isfinite(waits)])
    at = np.linspace(0, len(answered) - 1, min(200, len(answered))).astype(int)
    return [(1000 * float(answered[one]), (one + 1) / len(waits)) for one in at]
