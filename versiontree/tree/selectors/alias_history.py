"""The history of an alias: what a rollback goes back to."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from versiontree.tree.models import AliasMove, Hplm, Version
from versiontree.tree.models.hplm import DEFAULT_ALIAS
from versiontree.tree.models.version import VersionState
from versiontree.tree.selectors.versions import alias_moves_of


@dataclass(frozen=True, slots=True)
class AliasHistory:
    """``promoted``: the versions that an alias was promoted to, oldest first, without those that it was
    rolled back from; None where it did not exist. ``last``: its last move. ``rolled_back``: that was a
    rollback."""

    promoted: tuple[Version | None, ...]
    last: AliasMove | None
    rolled_back: bool

    @property
    def rollback_target(self) -> Version | None:
        """The version before the current one was promoted, if it is ready."""
        before = self.promoted[-2] if len(self.promoted) > 1 else None
        return before if before is not None and before.state == VersionState.READY else None


def alias_history(hplm: Hplm, name: str) -> AliasHistory:
    """Read the moves of an alias. One query.

    A move to the version before the last promotion is a rollback: it undoes that promotion. So rollbacks go
    further back each time, and never to a version that was rolled back.
    """
    return _history(alias_moves_of(hplm).filter(name=name).order_by("pk"))


def recent_promotions(hplms: Iterable[Hplm], since: datetime) -> dict[str, AliasHistory]:
    """Model name -> the history of its default version, where the last move is a promotion after `since`
    that can be rolled back. One query."""
    names = {hplm.pk: hplm.name for hplm in hplms}
    moves: dict[str, list[AliasMove]] = defaultdict(list)
    found = AliasMove.unscoped.filter(hplm__in=names, name=DEFAULT_ALIAS)
    for move in found.select_related("from_version", "to_version").order_by("pk"):
        moves[names[move.hplm_id]].append(move)
    histories = {name: _history(of) for name, of in moves.items() if of[-1].moved_at >= since}
    return {
        name: history
        for name, history in histories.items()
        if history.rollback_target is not None and not history.rolled_back
    }


def _history(moves: Iterable[AliasMove]) -> AliasHistory:
    promoted: list[Version | None] = []
    last, rolled_back = None, False
    for last in moves:
        promoted = promoted or [last.from_version]
        rolled_back = len(promoted) > 1 and promoted[-2] is not None and promoted[-2] == last.to_version
        if rolled_back:
            promoted.pop()
        else:
            promoted.append(last.to_version)
    return AliasHistory(tuple(promoted), last, rolled_back)
