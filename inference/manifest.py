"""The serving manifest: a JSON file that lists what inference workers serve. The web process writes it."""

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
    """The manifest exists but cannot be read."""


@dataclass(frozen=True, slots=True)
class ServedRoot:
    """A root that is served. ``files`` are sha256 by file name. ``lower`` is the digest of its local lower
    layers, or ""."""

    digest: str
    name: str
    files: Mapping[str, str]
    lower: str


@dataclass(frozen=True, slots=True)
class ServedHplm:
    """One version of a model, or a root: a model of no tenant, with the digest of its root and no files.

    ``root`` and ``plots`` (nearest table first) are digests, ``files`` sha256 by file name. ``lower`` is the
    digest of the nearest local lower layers, or "". ``pairs``: its inputs have two texts.
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


@dataclass(frozen=True, slots=True)
class ServedDecoder:
    """A decoder root that is served. ``files`` are sha256 by file name."""

    digest: str
    name: str
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ServedGenerativeHplm:
    """One version of a generative model, or a decoder root: a model of no tenant, with the digest of its root
    and no files. ``root`` is the digest of its decoder, ``files`` sha256 by file name."""

    tenant: str
    hplm: str
    version: int
    digest: str
    task: str
    root: str
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything that is served, at one revision. Artifacts are at ``<artifact_root>/<kind>/<dd>/<digest>``.

    roots and lowers: by digest; lowers are sha256 by file name. hplms: by tenant, model and version. decoders
    and generative_hplms: as roots and hplms, of generative models; none of them is in roots or hplms.
    weights: scheduling weights of tenants, if not 1. tables: the name of the domain or root that a table
    belongs to, by the table's digest. pinned: digests of models that stay in memory.
    """

    artifact_root: Path
    revision: int = 0
    roots: Mapping[str, ServedRoot] = field(default_factory=dict)
    hplms: Mapping[tuple[str, str, int], ServedHplm] = field(default_factory=dict)
    lowers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    tables: Mapping[str, str] = field(default_factory=dict)
    pinned: frozenset[str] = frozenset()
    decoders: Mapping[str, ServedDecoder] = field(default_factory=dict)
    generative_hplms: Mapping[tuple[str, str, int], ServedGenerativeHplm] = field(default_factory=dict)

    def weight(self, tenant: str) -> float:
        """The scheduling weight of the tenant."""
        return self.weights.get(tenant, 1.0)

    def pinned_hplms(self) -> list[ServedHplm]:
        """The pinned models that are served."""
        return [hplm for hplm in self.hplms.values() if hplm.digest in self.pinned]

    def find(self, tenant: str, hplm: str, version: int, digest: str = "") -> ServedHplm | None:
        """The version of a model, or None if it is not served. With the ``digest`` of a root: that root,
        whichever tenant asks."""
        owner = "" if digest in self.roots else tenant
        return self.hplms.get((owner, hplm, version))

    def find_generative(
        self, tenant: str, hplm: str, version: int, digest: str = ""
    ) -> ServedGenerativeHplm | None:
        """The version of a generative model, or None if it is not served. ``digest``: as in `find`."""
        owner = "" if digest in self.decoders else tenant
        return self.generative_hplms.get((owner, hplm, version))

    def below(self, roots: Collection[str]) -> "Manifest":
        """The part that belongs to these roots, by name or digest. Everything if ``roots`` is empty."""
        if not roots:
            return self
        names = set(roots)
        kept = {digest: root for digest, root in self.roots.items() if {digest, root.name} & names}
        decoders = {digest: root for digest, root in self.decoders.items() if {digest, root.name} & names}
        return replace(
            self,
            roots=kept,
            hplms={version: hplm for version, hplm in self.hplms.items() if hplm.root in kept},
            decoders=decoders,
            generative_hplms={
                version: hplm for version, hplm in self.generative_hplms.items() if hplm.root in decoders
            },
        )

    def folder(self, kind: str, digest: str) -> Path:
        """The folder of an artifact."""
        return self.artifact_root / kind / digest[:2] / digest

    @classmethod
    def load(cls, path: Path) -> "Manifest":
        """Read a manifest from the artifact root. Raises ManifestError or FileNotFoundError."""
        payload = path.read_bytes()
        try:
            data = json.loads(payload)
            if data["format"] != FORMAT:
                raise ManifestError(f"{path}: format {data['format']} is not {FORMAT}")
            roots = {digest: _root(digest, entry) for digest, entry in data["roots"].items()}
            lowers = {digest: dict(entry["files"]) for digest, entry in data["lowers"].items()}
            served = [_served(entry) for entry in data["hplms"].values()]
            revision = int(data["revision"])
            # Older web processes do not write these.
            bases = list(data.get("bases", {}).values())
            served += [_served(entry) for entry in bases if "plots" in entry]
            weights = {tenant: _weight(weight) for tenant, weight in data.get("weights", {}).items()}
            tables = {digest: str(name) for digest, name in data.get("tables", {}).items()}
            pinned = frozenset(map(str, data.get("pinned", ())))
            decoders = {digest: _decoder(digest, entry) for digest, entry in data.get("decoders", {}).items()}
            generative = [_generative(entry) for entry in data.get("generative", {}).values()]
            generative += [_generative(entry) for entry in bases if "plots" not in entry]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ManifestError(f"{path}: {error!r}") from error
        return cls(
            path.parent,
            revision,
            roots,
            {(hplm.tenant, hplm.hplm, hplm.version): hplm for hplm in served},
            lowers,
            weights,
            tables,
            pinned,
            decoders,
            {(hplm.tenant, hplm.hplm, hplm.version): hplm for hplm in generative},
        )


def _root(digest: str, entry: Mapping[str, Any]) -> ServedRoot:
    return ServedRoot(digest, entry["name"], dict(entry["files"]), entry["lower"])


def _decoder(digest: str, entry: Mapping[str, Any]) -> ServedDecoder:
    return ServedDecoder(digest, entry["name"], dict(entry["files"]))


def _generative(entry: Mapping[str, Any]) -> ServedGenerativeHplm:
    return ServedGenerativeHplm(
        tenant=entry["tenant"],
        hplm=entry["hplm"],
        version=int(entry["version"]),
        digest=entry["digest"],
        task=entry["task"],
        root=entry["root"],
        files=dict(entry["files"]),
    )


def _weight(value: Any) -> float:
    weight = float(value)
    if not 0 < weight < float("inf"):
        raise ValueError(f"a weight of {value}")
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
    )


class ManifestWatcher:
    """The current manifest, or its part below some ``roots``. Reads the file again when it was replaced."""

    def __init__(self, path: Path, *, roots: Collection[str] = ()) -> None:
        self.artifact_root = path.parent
        self._path = path
        self._roots = roots
        self._fingerprint: tuple[int, int, int] | None = None
        self._manifest = Manifest(artifact_root=path.parent)

    def has_changed(self) -> bool:
        """Whether the file was replaced since it was read. Costs one ``stat``."""
        try:
            return _fingerprint(self._path) != self._fingerprint
        except OSError:
            return False

    def invalidate(self) -> None:
        """Read the file again even if it was not replaced."""
        self._fingerprint = None

    def current(self) -> Manifest:
        """The manifest. Costs one ``stat`` if the file was not replaced.

        If the file is unreadable, that is logged once, and the last manifest stays.
        """
        try:
            fingerprint = _fingerprint(self._path)
            if fingerprint != self._fingerprint:
                self._fingerprint = fingerprint
                self._manifest = Manifest.load(self._path).below(self._roots)
        except FileNotFoundError:
            pass
        except (ManifestError, OSError) as error:
            log.error("keeping revision %d: %s", self._manifest.revision, error)
        return self._manifest


def _fingerprint(path: Path) -> tuple[int, int, int]:
    """Modification time, size and inode: a replaced file differs in one of them."""
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
