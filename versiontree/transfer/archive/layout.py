"""The layout of an archive of a version: a folder, or a zip file with the same names.

====================================  =================================================================
``manifest.json``                     format, the version and its ancestors, and every other file
``README.md``                         the model card
``config.json``                       the config and metrics of each version
``artifacts/<kind>/<digest>/<file>``  the artifacts, byte for byte as they are stored
====================================  =================================================================

The manifest lists versions nearest first: the exported one, its domains, and its root. An archive with the
branch has the artifacts of all of them, otherwise only those of the first.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tenants.base.characters import check_characters
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.strict_json import parse_json
from versiontree.artifact_store import FileEntry
from versiontree.tree.models.version import MAIN_ROLE, REQUIRED_ROLES, VersionKind
from versiontree.tree.root_kind import RootKind
from versiontree.tree.selectors.lineage import FIRST_MODEL, REBASE

FORMAT: Final = 1
ARCHIVE_TYPE: Final = "hmi-version"
MANIFEST: Final = "manifest.json"
CARD: Final = "README.md"
CONFIG: Final = "config.json"
ARTIFACTS: Final = "artifacts"
MAX_TEXT_BYTES: Final = 4 * 1024**2
"""Of a JSON file and of the model card."""
MAX_JSON_DEPTH: Final = 24
MAX_JSON_VALUES: Final = 600_000
LOCAL_CONFIG_KEYS: Final = frozenset({"source", REBASE, FIRST_MODEL})
"""Config keys that are neither exported nor imported: paths and ids on the exporting server."""
ALLOWED_FILES: Final[Mapping[str, frozenset[str]]] = {
    "root": frozenset(
        {
            "root.json",
            "tokenizer.json",
            "upper.safetensors",
            "int8.safetensors",  # of roots that earlier versions converted; nothing reads it
            "checkpoint_lower.safetensors",
            "lm_head.safetensors",
            "pooler.safetensors",
            "sentence.safetensors",
            "general_text.safetensors",
        }
    ),
    "lower": frozenset({"lower.json", "lower.safetensors", "full.safetensors", "lm_head.safetensors"}),
    "plot": frozenset({"plot.json", "index.lmdb", "vectors.bin", "composition.safetensors"}),
    "hplm": frozenset({"hplm.json", "hplm.safetensors", "cascade.json"}),
    "cascade": frozenset({"cascade.json"}),
}
"""The files that an artifact of each kind may have. Anything else is refused, such as pickled weights."""
ALLOWED_DECODER_FILES: Final[Mapping[str, frozenset[str]]] = {
    "root": frozenset(
        {
            "decoder.json",
            "decoder.safetensors",
            "tokenizer.json",
            "tokenizer_config.json",
            "chat_template.jinja",
        }
    ),
    "hplm": frozenset({"hplm.json", "lora.safetensors", "report.json"}),
}
"""The same below a decoder root."""


def kind_of_root(roles: Collection[str]) -> RootKind:
    """The kind of a root whose version has artifacts in these roles."""
    decoder = REQUIRED_ROLES[RootKind.DECODER][VersionKind.ROOT]
    return RootKind.DECODER if set(roles) == decoder else RootKind.ENCODER


@dataclass(frozen=True, slots=True)
class Node:
    """A version in an archive, with the `digests` of its artifacts by role.

    In its `config`, `compacts` lists indexes in the manifest instead of ids.
    """

    kind: VersionKind
    name: str
    number: int
    digests: Mapping[str, str]
    task: str = ""
    license: str = ""
    source_url: str = ""
    description: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """The digest of its main artifact."""
        return self.digests[MAIN_ROLE[self.kind]]

    @property
    def in_words(self) -> str:
        """For messages: "the root minilm v1 (f00dcafe)"."""
        return f"the {self.kind} {self.name} v{self.number} ({self.digest[:12]})"

    def identity(self) -> dict[str, Any]:
        """Its entry in the manifest."""
        entry: dict[str, Any] = {
            "kind": str(self.kind),
            "name": self.name,
            "number": self.number,
            "digest": self.digest,
            "digests": dict(self.digests),
            "license": self.license,
        }
        optional = {"task": self.task, "source_url": self.source_url, "description": self.description}
        return entry | {name: value for name, value in optional.items() if value}


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of an archive: its versions, nearest first, and its files without the manifest."""

    nodes: tuple[Node, ...]
    branch: bool
    files: Mapping[str, FileEntry]

    @property
    def version(self) -> Node:
        """The exported version."""
        return self.nodes[0]

    @property
    def root_kind(self) -> RootKind:
        """The kind of the root that all versions stand on."""
        return kind_of_root(self.nodes[-1].digests)

    @property
    def allowed_files(self) -> Mapping[str, frozenset[str]]:
        """The files that an artifact of each kind may have."""
        return ALLOWED_DECODER_FILES if self.root_kind == RootKind.DECODER else ALLOWED_FILES

    @property
    def size(self) -> int:
        """Bytes of all files but the manifest."""
        return sum(entry["size"] for entry in self.files.values())

    def artifacts(self) -> Iterator[tuple[str, str]]:
        """(kind, digest) of the artifacts in the archive, without duplicates."""
        nodes = self.nodes if self.branch else self.nodes[:1]
        yield from dict.fromkeys(
            (role, digest) for node in nodes for role, digest in sorted(node.digests.items())
        )


def artifact_prefix(kind: str, digest: str) -> str:
    """The path prefix of an artifact's files."""
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
        "type": ARCHIVE_TYPE,
        **version,
        "branch": contents.branch,
        "lineage": lineage,
        "files": dict(contents.files),
    }


def config_json(nodes: tuple[Node, ...]) -> dict[str, Any]:
    """The content of ``config.json``."""
    version, *lineage = ({"config": dict(node.config), "metrics": dict(node.metrics)} for node in nodes)
    return {**version, "lineage": lineage}


def invalid_archive(message: str, **details: Any) -> HmiError:
    """The error ``invalid_archive`` with this message."""
    return HmiError(ErrorCode.INVALID_ARCHIVE, message, param="archive", details=details or None)


def json_object(content: bytes, name: str) -> dict[str, Any]:
    """Parse a JSON object. Raises ``invalid_archive``, naming the file, if it is invalid or over a limit."""
    try:
        value = parse_json(content, what="The file", max_values=MAX_JSON_VALUES, max_depth=MAX_JSON_DEPTH)
        check_characters(value)
    except HmiError as error:
        limit = {"limit": MAX_JSON_VALUES} if error.code == ErrorCode.BODY_TOO_LARGE else {}
        raise invalid_archive(f"{name}: {error.message}", **limit) from error
    if not isinstance(value, dict):
        raise invalid_archive(f"{name} is not a JSON object.")
    return value
