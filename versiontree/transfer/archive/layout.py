"""What an archive of a version is: a folder, or a zip file of the same names.

====================================  =================================================================
``manifest.json``                     format, the version and what it stands on, and every other file
``README.md``                         the model card
``config.json``                       the choices each version was made with, and what was measured
``artifacts/<kind>/<digest>/<file>``  the artifacts, byte for byte as they are stored
====================================  =================================================================

Versions stand in the manifest nearest first: the exported one, then the domains and the root that it stands
on. Their artifacts are all there when the archive holds the branch; otherwise only those of the first.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tenants.base.errors import ErrorCode, HmiError
from versiontree.artifact_store import FileEntry
from versiontree.tree.models.version import MAIN_ROLE, VersionKind

FORMAT: Final = 1
WHAT: Final = "hmi-version"
MANIFEST: Final = "manifest.json"
CARD: Final = "README.md"
CONFIG: Final = "config.json"
ARTIFACTS: Final = "artifacts"
UNTOLD: Final = frozenset({"source"})
"""Parts of a config that name places of the exporting server."""
PARTS: Final[Mapping[str, frozenset[str]]] = {
    "root": frozenset(
        {
            "root.json",
            "tokenizer.json",
            "upper.safetensors",
            "checkpoint_lower.safetensors",
            "lm_head.safetensors",
            "pooler.safetensors",
            "general_text.safetensors",
        }
    ),
    "lower": frozenset({"lower.json", "lower.safetensors", "lm_head.safetensors"}),
    "plot": frozenset({"plot.json", "index.lmdb", "vectors.bin", "composition.safetensors"}),
    "hplm": frozenset({"hplm.json", "hplm.safetensors"}),
}
"""The files that an artifact of each kind may have: nothing else is taken, pickled weights least of all."""


@dataclass(frozen=True, slots=True)
class Node:
    """One version as an archive tells of it; `digests` by role. In `config`, `compacts` holds places in the
    manifest's list instead of ids."""

    kind: VersionKind
    name: str
    number: int
    digests: Mapping[str, str]
    task: str = ""
    licence: str = ""
    source_url: str = ""
    description: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """That of its main artifact, which names the version."""
        return self.digests[MAIN_ROLE[self.kind]]

    @property
    def in_words(self) -> str:
        """As it stands within a sentence: the root minilm v1 (f00dcafe)."""
        return f"the {self.kind} {self.name} v{self.number} ({self.digest[:12]})"

    def identity(self) -> dict[str, Any]:
        """What the manifest says of it."""
        told: dict[str, Any] = {
            "kind": str(self.kind),
            "name": self.name,
            "number": self.number,
            "digest": self.digest,
            "digests": dict(self.digests),
            "license": self.licence,
        }
        optional = {"task": self.task, "source_url": self.source_url, "description": self.description}
        return told | {name: value for name, value in optional.items() if value}


@dataclass(frozen=True, slots=True)
class Contents:
    """An archive without its bytes: versions nearest first, and `files` but for the manifest itself."""

    nodes: tuple[Node, ...]
    branch: bool
    files: Mapping[str, FileEntry]

    @property
    def version(self) -> Node:
        """What was exported."""
        return self.nodes[0]

    @property
    def size(self) -> int:
        """Bytes of all files but the manifest."""
        return sum(entry["size"] for entry in self.files.values())

    def held(self) -> Iterator[tuple[str, str]]:
        """(kind, digest) of the artifacts inside, each once."""
        nodes = self.nodes if self.branch else self.nodes[:1]
        yield from dict.fromkeys(
            (role, digest) for node in nodes for role, digest in sorted(node.digests.items())
        )


def artifact_prefix(kind: str, digest: str) -> str:
    """Where the files of an artifact stand, with the slash."""
    return f"{ARTIFACTS}/{kind}/{digest}/"


def artifact_files(files: Mapping[str, FileEntry], kind: str, digest: str) -> dict[str, FileEntry]:
    """The files of one artifact by their names within it."""
    prefix = artifact_prefix(kind, digest)
    return {name.removeprefix(prefix): entry for name, entry in files.items() if name.startswith(prefix)}


def manifest_json(contents: Contents) -> dict[str, Any]:
    """The content of ``manifest.json``."""
    version, *lineage = (node.identity() for node in contents.nodes)
    return {
        "format": FORMAT,
        "what": WHAT,
        **version,
        "branch": contents.branch,
        "lineage": lineage,
        "files": dict(contents.files),
    }


def config_json(nodes: tuple[Node, ...]) -> dict[str, Any]:
    """The content of ``config.json``."""
    version, *lineage = ({"config": dict(node.config), "metrics": dict(node.metrics)} for node in nodes)
    return {**version, "lineage": lineage}


def refused(message: str, **details: Any) -> HmiError:
    """An archive that cannot be imported."""
    return HmiError(ErrorCode.INVALID_ARCHIVE, message, param="archive", details=details or None)
