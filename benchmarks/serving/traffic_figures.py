"""The figures of `benchmarks.serving.traffic`: ratios of costs that were measured in turn."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from benchmarks.harness import Row

PRODUCT, PLAIN, LIMIT = "product", "transformers in process", "limit"
FASTAPI, FASTAPI_PEFT = "FastAPI + transformers", "FastAPI + PEFT"
WORKER: Final = "inference_worker"
PROCESSES: Final = ("web", WORKER, "valkey", "postgresql")
"""Of the product, which are what a text costs."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """So many clients, each with so many inputs a call, and the calls of a repeat."""

    clients: int
    inputs: int
    calls: int

    @property
    def name(self) -> str:
        """As it stands in the names of figures."""
        return f"{self.clients}x{self.inputs}"

    @property
    def texts(self) -> int:
        """Of a repeat."""
        return self.calls * self.inputs

    def shortened(self, share: int) -> "Pattern":
        """With one call in so many, but one for each client."""
        return replace(self, calls=max(self.clients, self.calls // share))


LONE: Final = Pattern(clients=1, inputs=1, calls=48)
PATTERNS: Final = (LONE, Pattern(64, 1, 512), Pattern(24, 2, 256), Pattern(16, 32, 48))
COMPARED: Final = ("64x1", "16x32")
COMPARISONS: Final = {"limit_share": LIMIT, "vs_dedicated_http": FASTAPI, "vs_peft_http": FASTAPI_PEFT}
"""By the names of figures, what is compared with the product."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What answering so many texts took: seconds, processor seconds by process, how long each call waited,
    and of that the seconds in which the product did not compute."""

    texts: int
    seconds: float
    cpu: Mapping[str, float]
    waits: Sequence[float]
    overheads: Sequence[float] = ()

    @property
    def cpu_ms(self) -> float:
        """Processor milliseconds of a text."""
        return 1000 * sum(self.cpu.values()) / self.texts

    @property
    def p50(self) -> float:
        """Seconds that the median call waited."""
        return median(self.waits)

    def cpu_ms_of(self, process: str) -> float:
        """Processor milliseconds of a text in one process."""
        return 1000 * self.cpu[process] / self.texts


Way = tuple[str, str]
"""The name of a pattern, and who answers."""
Found = Mapping[Way, Sequence[Cost]]
"""By way, the cost of each repeat."""


def figures(found: Found) -> dict[str, float]:
    """The medians over repeats; of who was not measured, none."""
    shares = {
        f"{name}_{pattern}": ratio(found, (pattern, other), (pattern, PRODUCT), lambda cost: cost.cpu_ms)
        for pattern in COMPARED
        for name, other in COMPARISONS.items()
        if found.get((pattern, other))
    }
    lone = ratio(found, (LONE.name, PRODUCT), (LONE.name, PLAIN), lambda cost: cost.p50)
    overheads = [wait for cost in found.get((LONE.name, PRODUCT), ()) for wait in cost.overheads]
    overhead = {"lone_overhead_ms": 1000 * median(overheads)} if overheads else {}
    worker = {
        f"worker_ms_per_text_{pattern}": median(cost.cpu_ms_of(WORKER) for cost in costs)
        for (pattern, who), costs in found.items()
        if who == PRODUCT
    }
    return {**shares, "lone_ratio": lone, **overhead, **worker}


def ratio(found: Found, over: Way, under: Way, of: Callable[[Cost], float]) -> float:
    """The median of the repeats' own ratios."""
    return median(of(one) / of(other) for one, other in zip(found[over], found[under], strict=True))


def rows(found: Found, policy: str) -> list[Row]:
    """A table of all ways, medians over repeats. policy: at which levels the product answers."""
    return [_row(way, costs, policy) for way, costs in found.items()]


def _row(way: Way, costs: Sequence[Cost], policy: str) -> Row:
    pattern, who = way
    split = {
        f"{name} ms": median(cost.cpu_ms_of(name) for cost in costs) if who == PRODUCT else ""
        for name in PROCESSES
    }
    return {
        "policy": policy,
        "clients x texts": pattern,
        "who answers": who,
        "texts/s": median(cost.texts / cost.seconds for cost in costs),
        "p50 ms": 1000 * median(cost.p50 for cost in costs),
        "CPU ms a text": median(cost.cpu_ms for cost in costs),
        **split,
    }
