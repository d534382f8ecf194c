"""Models whose domain or root has a newer version than the one they stand on (HMI sections 4.1 b to d)."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter

from django.db.models import Q, QuerySet

from tenants.accounts.models import Tenant
from tenants.datasets.models import GENERATIVE_TASKS
from versiontree.tree.models import Alias, Domain, Hplm, Root, RootKind, Version
from versiontree.tree.models.hplm import DEFAULT_ALIAS
from versiontree.tree.models.version import VersionKind, VersionState
from versiontree.tree.selectors.lineage import FROM_CHECKPOINT, REBASE, dependent_hplms

Owner = Root | Domain


@dataclass(frozen=True, slots=True)
class RebaseOffer:
    """A rebase that is possible: the default version of a model, the version of a domain or root that it
    stands on, and the newest one of that. ``tried``: such a rebase failed before."""

    current: Version
    base: Version
    target: Version
    tried: bool

    @property
    def hplm(self) -> Hplm:
        """The model."""
        assert self.current.hplm is not None, "a default version is one of a model"
        return self.current.hplm

    @property
    def problem(self) -> str:
        """Why the model cannot be rebased all the same, in a sentence; empty if it can."""
        if self.current.dataset_id is not None or self.current.config.get(FROM_CHECKPOINT):
            return ""
        return (
            f"Version {self.current.number} of {self.hplm.name} was imported without its dataset, so it"
            f" cannot be evaluated on {self.onto}. Update the model with a dataset first."
        )

    @property
    def stands_on(self) -> str:
        """The name of the version that it stands on: biomedicine:1."""
        return _name(self.base)

    @property
    def onto(self) -> str:
        """The name of the newest version: biomedicine:4."""
        return _name(self.target)


def _name(version: Version) -> str:
    return f"{version.name}:{version.number}"


def rebase_offer(current: Version, base: Version | None = None) -> RebaseOffer | None:
    """The rebase that is possible for the default version of a model, which stands on ``base``; None if that
    is the newest version, or the version is a quick or generative one, or was rebased already.

    At most two queries if ``base`` is given.
    """
    return next(iter(_offers([(current, base or current.domain_or_root())])), None)


def rebase_offers(hplms: QuerySet[Hplm]) -> list[RebaseOffer]:
    """The rebases that are possible for these models, by tenant and name. At most five queries."""
    rows = Alias.unscoped.filter(hplm__in=hplms.order_by(), name=DEFAULT_ALIAS)
    rows = rows.exclude(hplm__task__in=GENERATIVE_TASKS).order_by("hplm__tenant__slug", "hplm__name")
    defaults = [row.version for row in rows.select_related("version__hplm__tenant", "version__root")]
    bases = _bases(defaults)
    return _offers([(version, bases[version.pk]) for version in defaults])


def _offers(standing: Iterable[tuple[Version, Version]]) -> list[RebaseOffer]:
    """The rebases that are possible for these default versions, each with its base. At most two queries."""
    movable = [
        (version, base)
        for version, base in standing
        if not version.is_quick and base.root.kind == RootKind.ENCODER
    ]
    newest = _newest(base for _, base in movable)
    moved = [
        (version, base, target)
        for version, base in movable
        if (target := newest.get(_key(base))) is not None and target.number > base.number
    ]
    states = _rebases(version for version, _, _ in moved)
    offers = []
    for version, base, target in moved:
        found = states.get((version.pk, target.pk), set())
        if found <= {VersionState.FAILED}:
            offers.append(RebaseOffer(version, base, target, tried=bool(found)))
    return offers


def hplms_on(owner: Owner, tenant: Tenant | None) -> QuerySet[Hplm]:
    """The models that stand on a version of a domain or root itself: those of a tenant, or of all tenants
    that are not suspended."""
    found = dependent_hplms(owner)
    return found.filter(tenant__suspended_at=None) if tenant is None else found.filter(tenant=tenant)


def _bases(versions: Collection[Version]) -> dict[int, Version]:
    """The version of a domain or root that each of these stands on, by their ids. Two queries."""
    hplms = {version.hplm_id for version in versions}
    parents = dict(Version.unscoped.filter(hplm__in=hplms).values_list("pk", "parent_id"))
    ids = {version.pk: _climb(version.pk, parents) for version in versions}
    rows = Version.unscoped.filter(pk__in=set(ids.values())).select_related("root", "domain__root")
    found = {row.pk: row for row in rows}
    return {pk: found[base] for pk, base in ids.items()}


def _climb(pk: int, parents: Mapping[int, int | None]) -> int:
    while (above := parents.get(pk)) is not None:
        pk = above
    return pk


def _newest(bases: Iterable[Version]) -> dict[tuple[str, int | None], Version]:
    """The newest ready version of the domain or root of each, as far as tenants see it. One query."""
    owners = {_key(base) for base in bases}
    roots = {owner for kind, owner in owners if kind == VersionKind.ROOT}
    domains = {owner for kind, owner in owners if kind == VersionKind.DOMAIN}
    rows = Version.unscoped.filter(Q(kind=VersionKind.ROOT, root__in=roots) | Q(domain__in=domains))
    seen = Q(domain=None) | Q(domain__tenant__isnull=False) | Q(domain__published_at__isnull=False)
    ready = rows.filter(seen, state=VersionState.READY).select_related("root", "domain__root")
    return {_key(row): row for row in sorted(ready, key=attrgetter("number"))}


def _key(base: Version) -> tuple[str, int | None]:
    return base.kind, base.domain_id if base.kind == VersionKind.DOMAIN else base.root_id


def _rebases(versions: Iterable[Version]) -> dict[tuple[int, int], set[str]]:
    """The states of the rebases of these versions, by their ids and those of the new parents. One query."""
    found: dict[tuple[int, int], set[str]] = {}
    hplms = {version.hplm_id for version in versions}
    rows = Version.unscoped.filter(hplm__in=hplms, config__has_key=REBASE)
    for source, parent, state in rows.values_list(f"config__{REBASE}__id", "parent_id", "state"):
        found.setdefault((source, parent), set()).add(state)
    return found
