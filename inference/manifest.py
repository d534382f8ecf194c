"""What to serve: the file through which the web process tells inference workers, read without Django."""

import json
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

FORMAT = 2
FILE_NAME = "manifest.json"


class ManifestError(Exception):
    """The manifest is there but cannot be read."""


@dataclass(frozen=True, slots=True)
class ServedRoot:
    """A root whose upper layers workers hold; sha256 by file name; the digest of its own local lower layers,
    "" where it has none."""

    digest: str
    name: str
    files: Mapping[str, str]
    lower: str


@dataclass(frozen=True, slots=True)
class ServedHplm:
    """One version of a model: its root, its PLOT chain (digests, nearest first), sha256 by file name.

    ``lower`` is the digest of the nearest local lower layers, "" where there are none; ``pairs`` whether its
    inputs have two texts; ``shares_counts`` whether its tenant lets be counted which fragments the tables
    lack.
    """

    tenant: str
    hplm: str
    version: int
    digest: str
    task: str
    root: str
    plots: tuple[str, ...]
    files: Mapping[str, str]
    lower: str
    pairs: bool
    shares_counts: bool


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything that is served, at one revision. Artifacts lie at ``<root>/<kind>/<dd>/<digest>``;
    ``lowers`` has, for each of the local lower layers, its files' sha256 by name; ``weights`` those of
    tenants that have another than 1; ``tables`` what the nearest table of a chain belongs to: a domain or a
    root; ``pinned`` the digests of models that are to stay in memory."""

    artifact_root: Path
    revision: int = 0
    roots: Mapping[str, ServedRoot] = field(default_factory=dict)
    hplms: Mapping[tuple[str, str, int], ServedHplm] = field(default_factory=dict)
    lowers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    tables: Mapping[str, str] = field(default_factory=dict)
    pinned: frozenset[str] = frozenset()

    def weight(self, tenant: str) -> float:
        """The tenant's share of the engine beside that of others."""
        return self.weights.get(tenant, 1.0)

    def to_stay(self) -> list[ServedHplm]:
        """The pinned models that are served here."""
        return [hplm for hplm in self.hplms.values() if hplm.digest in self.pinned]

    def find(self, tenant: str, hplm: str, version: int) -> ServedHplm | None:
        return self.hplms.get((tenant, hplm, version))

    def only(self, roots: Collection[str]) -> "Manifest":
        """The part that is below these roots, named or by digest; all of it where none are named."""
        if not roots:
            return self
        kept = {digest: root for digest, root in self.roots.items() if {digest, root.name} & set(roots)}
        hplms = {version: hplm for version, hplm in self.hplms.items() if hplm.root in kept}
        return replace(self, roots=kept, hplms=hplms)

    def folder(self, kind: str, digest: str) -> Path:
        """Where the artifact of that kind and digest lies."""
        return self.artifact_root / kind / digest[:2] / digest

    @classmethod
    def load(cls, path: Path) -> "Manifest":
        """Read the file; its folder is the artifact root. Raises ManifestError or FileNotFoundError."""
        payload = path.read_bytes()
        try:
            data = json.loads(payload)
            if data["format"] != FORMAT:
                raise ManifestError(f"{path}: format {data['format']} is not {FORMAT}")
            roots = {digest: _root(digest, entry) for digest, entry in data["roots"].items()}
            lowers = {digest: dict(entry["files"]) for digest, entry in data["lowers"].items()}
            served = [_served(entry) for entry in data["hplms"].values()]
            revision = int(data["revision"])
            # Manifests of an older web process have none of these.
            weights = {tenant: _weight(weight) for tenant, weight in data.get("weights", {}).items()}
            tables = {digest: str(name) for digest, name in data.get("tables", {}).items()}
            pinned = frozenset(map(str, data.get("pinned", ())))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ManifestError(f"{path}: {error!r}") from error
        hplms = {(hplm.tenant, hplm.hplm, hplm.version): hplm for hplm in served}
        return cls(path.parent, revision, roots, hplms, lowers, weights, tables, pinned)


def _root(digest: str, entry: Mapping[str, Any]) -> ServedRoot:
    return ServedRoot(digest, entry["name"], dict(entry["files"]), entry["lower"])


def _weight(given: Any) -> float:
    weight = float(given)
    if not 0 < weight < float("inf"):
        raise ValueError(f"a weight of {given}")
    return weight


def _served(entry: Mapping[str, Any]) -> ServedHplm:
    return ServedHplm(
        tenant=entry["tenant"],
        hplm=entry["hplm"],
        version=int(entry["version"]),
        digest=entry["digest"],
        task=entry["task"],
        root=entry["root"],
        plots=tuple(entry["plots"]),
        files=dict(entry["files"]),
        lower=entry["lower"],
        pairs=bool(entry["pairs"]),
        shares_counts=bool(entry["shares_counts"]),
    )


class ManifestWatcher:
    """The current manifest, or its part below some ``roots``, read again whenever the file was replaced."""

    def __init__(self, path: Path, *, roots: Collection[str] = ()) -> None:
        self.artifact_root = path.parent
        self._path = path
        self._roots = roots
        self._seen: tuple[int, int, int] | None = None
        self._manifest = Manifest(artifact_root=path.parent)

    def is_new(self) -> bool:
        """Whether the file was replaced since it was read: one ``stat``."""
        try:
            return _fingerprint(self._path) != self._seen
        except OSError:
            return False

    def forget(self) -> None:
        """Take the file for new."""
        self._seen = None

    def current(self) -> Manifest:
        """One ``stat`` when nothing changed. An unreadable file is logged once and the last good one kept."""
        try:
            seen = _fingerprint(self._path)
            if seen != self._seen:
                self._seen = seen
                self._manifest = Manifest.load(self._path).only(self._roots)
        except FileNotFoundError:
            pass
        except (ManifestError, OSError) as error:
            log.error("keeping revision %d: %s", self._manifest.revision, error)
        return self._manifest


def _fingerprint(path: Path) -> tuple[int, int, int]:
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
