"""The versions that are served, and their artifacts, as plain rows.

Ten thousand model instances would take seconds.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

from tenants.datasets.models import GENERATIVE_TASKS
from versiontree.tree.models import VersionArtifact
from versiontree.tree.models.version import VersionState
from versiontree.tree.selectors.lineage import COMPACTS, without_compacted


@dataclass(frozen=True, slots=True)
class ServedVersion:
    """A served version of a model, or of a root, without ``tenant``. ``pairs``: of its dataset, if known."""

    COLUMNS: ClassVar = (
        *("pk", "parent_id", "number", "digest", "hplm__name", "hplm__task", "config__dataset__pairs"),
        *("hplm__tenant__slug", "hplm__tenant__weight"),
    )

    pk: int
    parent_id: int
    number: int
    digest: str
    hplm: str
    task: str
    pairs: bool | None
    tenant: str
    weight: float

    @property
    def name(self) -> str:
        """The tenant, the model and the number of the version; of a root only the last two."""
        return f"{self.tenant}/{self.hplm}:{self.number}".lstrip("/")

    @property
    def is_generative(self) -> bool:
        """Whether it is built on a decoder."""
        return self.task in GENERATIVE_TASKS


class ArtifactLink(NamedTuple):
    """An artifact in one role of a version.

    ``domain`` is set for a domain's version, ``tenant`` if the domain is a tenant's. ``compacts`` are the
    versions whose tables it merges.
    """

    version_id: int
    role: str
    root: str
    domain: str | None
    tenant: str | None
    compacts: list[int] | None
    digest: str
    files: dict[str, dict[str, Any]]

    @property
    def owner(self) -> str:
        """The name of the version's domain, with the tenant if it has one, or of its root."""
        if self.domain is None:
            return self.root
        return f"{self.tenant}/{self.domain}" if self.tenant else self.domain

    def checksums(self) -> dict[str, str]:
        """The sha256 of each file by name."""
        return {name: entry["sha256"] for name, entry in self.files.items()}


LINK_COLUMNS = (
    *("version_id", "role", "version__root__name", "version__domain__name", "version__domain__tenant__slug"),
    *(f"version__config__{COMPACTS}", "artifact__digest", "artifact__files"),
)
ArtifactLinks = Mapping[str, Mapping[int, ArtifactLink]]
"""Artifact links by role and version id."""


@dataclass(frozen=True, slots=True)
class ServedBranch:
    """What all models below a version share: the root, and lower layers and tables, nearest first."""

    root: ArtifactLink
    lowers: tuple[ArtifactLink, ...]
    tables: tuple[ArtifactLink, ...]

    @classmethod
    def of(cls, chain: Iterator[int], links: ArtifactLinks) -> Self:
        """The branch of a version and its ancestors, by their ids."""
        path = list(chain)
        plots = links["plot"]
        read = without_compacted(path, {pk: link.compacts or () for pk, link in plots.items()})
        return cls(
            root=nearest_root(path, links),
            lowers=tuple(links["lower"][pk] for pk in path if pk in links["lower"]),
            tables=tuple(plots[pk] for pk in read if pk in plots),
        )


def nearest_root(chain: Iterable[int], links: ArtifactLinks) -> ArtifactLink:
    """The root's artifact of a version and its ancestors, by their ids."""
    return next(links["root"][pk] for pk in chain if pk in links["root"])


def links_by_role() -> ArtifactLinks:
    """The artifacts of all ready and retired versions. One query."""
    found: dict[str, dict[int, ArtifactLink]] = defaultdict(dict)
    usable = VersionArtifact.unscoped.filter(version__state__in=[VersionState.READY, VersionState.RETIRED])
    for row in usable.values_list(*LINK_COLUMNS):
        link = ArtifactLink(*row)
        found[link.role][link.version_id] = link
    return found


def ancestor_ids(pk: int | None, parents: Mapping[int, int | None]) -> Iterator[int]:
    """The ids of a version and its ancestors, up to the root."""
    while pk is not None:
        yield pk
        pk = parents[pk]
