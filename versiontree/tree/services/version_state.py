"""Compare-and-set: whoever updates exactly one row owns the next step. The event goes in with it."""

from typing import Any

from versiontree.tree.models.version import LEGAL_VERSION_TRANSITIONS, Version, VersionState


def version_move(*, version_id: int, from_state: VersionState, to: VersionState, **changes: Any) -> bool:
    """Move a version from one state to another; False when it was not in the first."""
    if to not in LEGAL_VERSION_TRANSITIONS[from_state]:
        raise ValueError(f"illegal version transition {from_state} -> {to}")
    rows = Version.unscoped.filter(pk=version_id, state=from_state)
    return bool(rows.update(state=to, **changes))


def version_lock(*, version_id: int) -> Version:
    """The version, its row locked until the transaction ends: the jobs of one version change one at a time.

    Always taken before a job row is touched, and after the model's (``aliases_hold``), so that two
    transactions cannot wait for each other.
    """
    return Version.unscoped.select_for_update(no_key=True).get(pk=version_id)
