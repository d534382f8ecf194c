"""An engine that only counts: lines of rows, served batch by batch as `FairShares` says."""

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import islice

from hypothesis import strategies as st

from inference.engine.batcher import BatchLimits, batch_size
from inference.engine.fairness import FIRST_MS_PER_TOKEN, FairShares

LIMITS = BatchLimits(rows=4, tokens=200)
LONGEST, AHEAD = 50, 100

arrivals = st.lists(
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(2, LONGEST), st.integers(1, 6)), max_size=3),
    min_size=1,
    max_size=40,
)


@dataclass
class Engine:
    """Lines of rows, given by their tokens, served batch by batch; ``slower`` is how much longer than
    expected the rows of a tenant take."""

    shares: FairShares = field(default_factory=FairShares)
    slower: dict[str, float] = field(default_factory=dict)
    lines: dict[str, list[int]] = field(default_factory=dict)
    took_ms: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def arrive(self, tenant: str, tokens: int, rows: int = 1) -> None:
        self.lines.setdefault(tenant, []).extend([tokens] * rows)
        self.shares.enter(tenant, rows)

    def step(self) -> list[str]:
        """Serve a batch; whose rows it had."""
        if not self.lines:
            return []
        waiting = {
            tenant: [(tenant, n, tokens) for n, tokens in enumerate(line)]
            for tenant, line in self.lines.items()
        }
        due = list(islice(self.shares.due(waiting, tokens=lambda row: row[2], ahead_tokens=AHEAD), 64))
        rows = due[: batch_size([tokens for _, _, tokens in due], LIMITS)]
        assert due[0] in rows
        charged = [self.shares.charge(tenant, tokens) for tenant, _, tokens in rows]
        for (tenant, _, tokens), expected in zip(rows, charged, strict=True):
            self._settle(tenant, tokens, expected)
        for tenant, place, _ in sorted(rows, reverse=True):
            del self.lines[tenant][place]
        self.lines = {tenant: line for tenant, line in self.lines.items() if line}
        return [tenant for tenant, _, _ in rows]

    def _settle(self, tenant: str, tokens: int, charged: float) -> None:
        took = tokens * FIRST_MS_PER_TOKEN * self.slower.get(tenant, 1.0)
        self.shares.settle(tenant, charged, took)
        self.took_ms[tenant] += took
