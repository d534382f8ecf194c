"""Decide whether a new version may replace the current one without a click."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tenants.datasets.models import Split
from versiontree.jobs.models import JobKind
from versiontree.tree.models import AliasMove, Version
from versiontree.tree.models.hplm import DEFAULT_ALIAS
from versiontree.tree.models.version import VersionState
from versiontree.tree.selectors.lineage import FROM_CHECKPOINT
from versiontree.tree.selectors.versions import as_mapping, is_number

AGAINST: Final = "against"
"""The key in the metrics of an evaluation that holds the comparison with the version that was then current:
``{"version", "dev", "test"}``, or ``problem`` if there is none.

A split is ``{"rows", "left_out", "metric", "old", "new", "p_value"}``, without rows that the new version was
trained on: ``left_out`` counts them.
"""
SIGNIFICANCE: Final = 0.05
FEWEST_ROWS: Final = 5
"""With fewer rows no difference is significant: 0.5 ** 4 > 0.05."""
LOWER_IS_BETTER: Final = frozenset({"loss", "mean_absolute_error"})


@dataclass(frozen=True, slots=True)
class Paired:
    """The metric of both versions on the same rows of a split. p_value: of the new one being worse, by a
    one-sided test. left_out: rows that the new one was trained on."""

    rows: int
    left_out: int
    metric: str
    old: float
    new: float
    p_value: float

    @property
    def is_worse(self) -> bool:
        """Whether the new version is significantly worse; with too few rows for that, whether it is worse."""
        return self.loss > 0 and (self.p_value < SIGNIFICANCE or self.rows < FEWEST_ROWS)

    @property
    def loss(self) -> float:
        """How much worse the new version is, significantly or not; below 0 if it is better."""
        return self.new - self.old if self.metric in LOWER_IS_BETTER else self.old - self.new


@dataclass(frozen=True, slots=True)
class Comparison:
    """A new version beside the version ``version``, by its job. A split without common rows is None.
    dev_left_out: dev rows that the new one was trained on."""

    version: int
    dev: Paired | None
    test: Paired | None
    dev_left_out: int
    problem: str


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether an alias moves to a new version, and why, in one sentence."""

    moves: bool
    reason: str


def promotion_decision(version: Version, current: Version | None) -> Decision:
    """Whether ``default`` moves to a new version although nobody clicked. The only rule for it.

    It moves if the new version is not significantly worse than the current one on the current one's dev rows,
    those left out that the new one was trained on. In doubt the owner decides. Test is reported only. A
    trained version whose evaluation found no current one, because its quick version was still being built,
    moves it, as it would have by ending first. So does one with the checkpoint's own head on a newer version
    of the root.
    """
    if current is None:
        return Decision(True, "First version")
    if version.config.get(FROM_CHECKPOINT) and current.config.get(FROM_CHECKPOINT):
        return Decision(True, "The same head of the checkpoint on a newer version of the root")
    found, name = comparison_of_version(version), f"version {current.number}"
    if found is None and current.is_quick and JobKind.EVALUATE in version.metrics:
        return Decision(True, f"First trained version, evaluated before {name} was ready")
    if found is None:
        return Decision(False, f"It was not compared with {name}.")
    if found.version != current.number:
        return Decision(False, f"It was compared with version {found.version}, not with {name}.")
    if found.problem:
        return Decision(False, found.problem)
    if found.dev is None:
        learned = f", as it was trained on all {found.dev_left_out:,}" if found.dev_left_out else ""
        return Decision(False, f"There is no dev row of {name} to compare it on{learned}.")
    if found.dev.is_worse:
        return Decision(False, f"It is worse than {name} on the dev rows of {name}.")
    return Decision(True, f"New version, not worse than {name} on its dev rows")


def promotion_pending(version: Version, current: Version | None) -> Decision | None:
    """Why ``default`` was not moved to a ready version, so that its owner decides. None if it was, if nobody
    wanted it, or if a newer version is the default. ``current``: that of ``default``. At most one query."""
    if version.hplm is None or version.state != VersionState.READY:
        return None
    if not version.config.get("auto_promote", True) or current is None or current.number >= version.number:
        return None
    moves = AliasMove.unscoped.filter(hplm=version.hplm, name=DEFAULT_ALIAS, to_version=version)
    decision = promotion_decision(version, current)
    return None if decision.moves or moves.exists() else decision


def comparison_of_version(version: Version) -> Comparison | None:
    """The comparison in the metrics of a version; None without one."""
    found = as_mapping(as_mapping(version.metrics.get(JobKind.EVALUATE)).get(AGAINST))
    number = found.get("version")
    if not isinstance(number, int):
        return None
    dev, test = (as_mapping(found.get(split)) for split in (Split.DEV, Split.TEST))
    left_out = dev.get("left_out", 0)
    return Comparison(number, _paired(dev), _paired(test), left_out, str(found.get("problem") or ""))


def _paired(found: Mapping[str, Any]) -> Paired | None:
    figures = [value for name in ("old", "new", "p_value") if is_number(value := found.get(name))]
    if not found.get("rows") or len(figures) < 3:
        return None
    return Paired(found["rows"], found.get("left_out", 0), str(found.get("metric", "")), *figures)
