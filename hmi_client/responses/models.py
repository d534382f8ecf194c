"""Models, their aliases, and the versions of the tree."""

from dataclasses import dataclass, field

from hmi_client.responses.decoding import Json
from hmi_client.responses.jobs import JobSummary


@dataclass(frozen=True, slots=True)
class Canary:
    """A second version that answers ``percent`` of the requests to an alias."""

    version: int
    percent: int
    started_at: str = ""


@dataclass(frozen=True, slots=True)
class Alias:
    """A movable name for a version of a model. ``quick``: that is a quick one."""

    name: str
    version: int
    quick: bool = False
    moved_at: str = ""
    canary: Canary | None = None


@dataclass(frozen=True, slots=True)
class Rollback:
    """An alias that was rolled back: from a version, and to ``version``. ``moved`` is False if it had been
    rolled back already, and nothing moved."""

    name: str
    version: int
    from_version: int
    moved: bool = True
    moved_at: str = ""


@dataclass(frozen=True, slots=True)
class AliasMove:
    """One move of an alias. ``from_version`` is None for its first."""

    name: str
    to_version: int
    from_version: int | None = None
    reason: str = ""
    moved_by: str | None = None
    moved_at: str = ""


@dataclass(frozen=True, slots=True)
class Model:
    """A model."""

    name: str
    tenant: str
    task: str
    license: str = ""
    description: str = ""
    aliases: tuple[Alias, ...] = ()
    created_at: str = ""


@dataclass(frozen=True, slots=True)
class Version:
    """A node of the version tree: of a root, a domain or a model.

    ``policy`` says how requests that set no quality are answered. None: by the default of the installation.
    A ``quick`` version answers until the trained one is ready.
    """

    id: int
    kind: str
    name: str
    number: int
    root: str
    state: str
    quick: bool = False
    tenant: str | None = None
    parent: int | None = None
    digest: str | None = None
    policy: str | None = None
    config: Json = field(default_factory=dict)
    metrics: Json = field(default_factory=dict)
    jobs: tuple[JobSummary, ...] = ()
    created_at: str = ""
    ready_at: str | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The answers of a version against those of another one, on ``stored`` of ``rows`` test rows. ``changes``
    counts the rows that were fixed, broken and changed; ``p_value`` is that of McNemar's exact test. Each of
    the ``results`` is a row with its ``change``, ``input``, ``gold``, and the answers ``before`` and
    ``after``."""

    rows: int
    stored: int
    changes: Json = field(default_factory=dict)
    p_value: float | None = None
    dataset: str = ""
    results: tuple[Json, ...] = ()


@dataclass(frozen=True, slots=True)
class Domain:
    """A domain. ``tenant`` is None if it belongs to the platform."""

    id: int
    name: str
    root: str
    tenant: str | None = None
    description: str = ""
    created_at: str = ""
