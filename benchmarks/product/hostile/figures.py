"""The figures of a run, from what was seen of each attack and each kill, and which of them miss their aim."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from benchmarks.product.hostile.product import Identity

MIB: Final = 1024**2
AIMS: Final[Mapping[str, float]] = {
    "good_failed": 0,
    "truncated_executed": 0,
    "longest_pause_s": 0.2,
    "p95_ratio": 3.0,
    "internal_errors": 0,
    "lost_lines": 0,
    "over_quota": 0,
    "revoked_stream_s": 10.0,
    "left_behind": 0,
    "memory_growth_mb": 512,
    "disk_growth_mb": 256,
    "restarts_without_a_kill": 0,
    "kills_without_one_restart": 0,
    "product_ended": 0,
}
"""The most that each figure may be."""
Identities = Mapping[str, Identity]


@dataclass(frozen=True, slots=True)
class Attacked:
    """An attack: the latencies of the well-behaved tenant's calls meanwhile and beside a harmless process of
    the same processor time (``cores``), its failures in both, the memory of each child when all had most, the
    longest time in which the web server answered nobody, how many children were started again, how long the
    tenant's webhook took, and whether all of the product ended.
    ``counted`` is what the attack says of itself."""

    name: str
    seconds: Sequence[float]
    beside: Sequence[float]
    failures: Sequence[str]
    cores: float
    memory: Counter[str]
    restarts: int
    pause_s: float = 0.0
    webhook_s: float = 0.0
    product_ended: bool = False
    counted: Mapping[str, int] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """p95 under attack over p95 beside the harmless process."""
        return p95(self.seconds) / p95(self.beside) if self.seconds and self.beside else 0.0


@dataclass(frozen=True, slots=True)
class Killed:
    """A child that was killed: seconds until its work was done again (None: never), how often it and the
    others were started again, and whether the whole product ended."""

    child: str
    recovery_s: float | None
    failures: Sequence[str]
    restarts: int
    restarts_of_others: int
    product_ended: bool

    @property
    def is_clean(self) -> bool:
        """It alone was started again, once."""
        return not self.product_ended and (self.restarts, self.restarts_of_others) == (1, 0)


@dataclass(frozen=True, slots=True)
class Deleted:
    """Tenants whose data were deleted: the seconds until the product said so, and from then on until no trace
    of them was found, or was looked for no longer; ``traces``: the bytes that are left, by file; ``refused``:
    what the tenants could not leave before."""

    deleted_s: float
    vanished_s: float
    traces: Counter[str]
    refused: Counter[str]


def together(rounds: Sequence[Attacked]) -> Attacked:
    """Several rounds of one attack as one."""
    counted = Counter[str]()
    for one in rounds:
        for name, count in one.counted.items():
            counted[name] = max(counted[name], count) if name.endswith(" ms") else counted[name] + count
    return Attacked(
        name=rounds[0].name,
        seconds=[second for one in rounds for second in one.seconds],
        beside=[second for one in rounds for second in one.beside],
        failures=[failure for one in rounds for failure in one.failures],
        cores=max(one.cores for one in rounds),
        memory=max((one.memory for one in rounds), key=Counter.total),
        restarts=sum(one.restarts for one in rounds),
        pause_s=max(one.pause_s for one in rounds),
        webhook_s=max(one.webhook_s for one in rounds),
        product_ended=any(one.product_ended for one in rounds),
        counted=counted,
    )


def p95(seconds: Sequence[float]) -> float:
    """The 95th percentile; 0 of nothing."""
    return float(np.percentile(seconds, 95)) if seconds else 0.0


def restarted(seen: Sequence[Identities]) -> Mapping[str, int]:
    """How often each child was started again, from what ran at moments one after the other. One that is not
    there for a moment and comes back as the same process was not."""
    known: dict[str, set[Identity]] = {}
    for moment in seen:
        for child, identity in moment.items():
            known.setdefault(child, set()).add(identity)
    return {child: len(identities) - 1 for child, identities in known.items()}


def figures(
    attacks: Sequence[Attacked],
    kills: Sequence[Killed],
    deletion: Deleted | None,
    *,
    memory_before: Counter[str],
    disk_growth: int,
) -> dict[str, float]:
    """All figures, flat; of a kill after which nothing was done again, ``recovery_s`` is left out."""
    every: list[Attacked | Killed] = [*attacks, *kills]
    counted = sum((Counter(one.counted) for one in attacks), Counter[str]())
    growths = [one.memory.total() - memory_before.total() for one in attacks]
    found: dict[str, float] = {
        "good_failed": sum(len(one.failures) for one in every),
        "good_failed_attacks": sum(len(one.failures) for one in attacks),
        "good_failed_kills": sum(len(one.failures) for one in kills),
        "truncated_executed": counted["executed"],
        "longest_pause_s": max((one.pause_s for one in attacks), default=0.0),
        "p95_ratio": max((one.ratio for one in attacks), default=0.0),
        "internal_errors": sum(count for name, count in counted.items() if name.startswith("answered 500")),
        "lost_lines": counted["lost lines"],
        "over_quota": counted["over quota"],
        "revoked_stream_s": counted["ended after ms"] / 1000,
        "left_behind": deletion.traces.total() if deletion else 0,
        "webhook_s": max((one.webhook_s for one in attacks), default=0.0),
        "memory_growth_mb": max(growths, default=0) / MIB,
        "disk_growth_mb": disk_growth / MIB,
        "restarts_without_a_kill": sum(one.restarts for one in attacks)
        + sum(one.restarts_of_others for one in kills if not one.product_ended),
        "kills_without_one_restart": sum(not one.is_clean for one in kills),
        "product_ended": sum(one.product_ended for one in every),
    }
    recovered = {one.child: one.recovery_s for one in kills if one.recovery_s is not None}
    found |= {f"recovery_s_{child.replace(' ', '_').lower()}": took for child, took in recovered.items()}
    found["not_recovered"] = len(kills) - len(recovered)
    return found


def missed(found: Mapping[str, float]) -> list[str]:
    """What missed its aim, in words."""
    told = [
        f"{name} is {found[name]:,.1f}; the aim is at most {most:g}"
        for name, most in AIMS.items()
        if found[name] > most
    ]
    return told + (["not every child recovered from being killed"] if found.get("not_recovered") else [])
