"""Which of several roots an upload is held against first, and why that one."""

from collections.abc import Iterable
from dataclasses import dataclass

from tenants.accounts.models import Tenant
from tenants.base.errors import HmiError
from versiontree.tree.models import Coverage, Version
from versiontree.tree.models.version import VersionKind
from versiontree.tree.selectors.versions import parents_ready_for
from versiontree.tree.tokenizer_fit import root_longest


@dataclass(frozen=True, slots=True)
class Recommended:
    """The newest ready version of a root; ``why`` goes on after its name and a comma."""

    version: Version
    why: str


def root_recommended(tenant: Tenant | None, measured: Iterable[Coverage] = ()) -> Recommended | None:
    """The root whose tables, or whose domains' tables, hold most of an upload as far as that was measured;
    else the one that reads the longest texts, and of several such the newest. None where no root is ready."""
    newest: dict[int, Version] = {}
    for version in parents_ready_for(tenant).filter(kind=VersionKind.ROOT):
        newest.setdefault(version.root_id, version)
    if not newest:
        return None
    if len(newest) == 1:
        return Recommended(next(iter(newest.values())), "the only root that is ready")
    known = [one for one in measured if not one.fault and one.version.root_id in newest]
    if best := max(known, key=lambda one: one.rank, default=None):
        return Recommended(newest[best.version.root_id], _holds(best))
    longest = {key: _longest(version) for key, version in newest.items()}
    most = max(longest.values())
    first, *others = (version for key, version in newest.items() if longest[key] == most)
    alone = "the newest of those that read" if others else "the only one that reads"
    return Recommended(first, f"{alone} texts of {most:,} tokens")


def _holds(best: Coverage) -> str:
    domain = best.version.domain
    whose = f"whose domain {domain.name} has the tables that hold" if domain else "whose tables hold"
    return f"{whose} most of it ({best.rank[0]:.1%} of the fragments)"


def _longest(version: Version) -> int:
    try:
        return root_longest(version)
    except HmiError:
        return 0
