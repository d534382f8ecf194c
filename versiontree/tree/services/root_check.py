"""Check a root before it is registered: what its checkpoint is, what it takes, and what is not supported."""

from dataclasses import dataclass
from typing import Any

from tenants.audit.services import Actor
from versiontree.tree.checkpoint_report import CheckpointReport, checkpoint_report
from versiontree.tree.root_kind import RootKind
from versiontree.tree.selectors.conversion_estimates import ConversionEstimate, conversion_estimate
from versiontree.tree.services.dry_run import dry_run
from versiontree.tree.services.roots import root_register


@dataclass(frozen=True, slots=True)
class RootCheck:
    """The report of a checkpoint, and without problems also the estimate and the version's warnings."""

    report: CheckpointReport
    estimate: ConversionEstimate | None = None
    warnings: tuple[str, ...] = ()


def root_check(*, source: str, actor: Actor, kind: str = RootKind.ENCODER, **fields: Any) -> RootCheck:
    """Check what ``root_register`` would register with these fields. Nothing is created.

    Problems of a checkpoint's folder are part of the result. Raises what ``root_register`` raises otherwise.
    """
    report = checkpoint_report(source, RootKind(kind))
    if report.problems:
        return RootCheck(report)
    version = dry_run(lambda: root_register(source=source, kind=kind, actor=actor, **fields))
    config = version.config
    estimate = conversion_estimate(report, config["settings"], vectors=config.get("vectors", ""))
    return RootCheck(report, estimate, tuple(config.get("warnings", ())))
