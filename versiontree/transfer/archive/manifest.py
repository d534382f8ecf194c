"""Validate ``manifest.json`` and ``config.json`` of an archive."""

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final, TypeVar

from tenants.base.errors import HmiError
from tenants.datasets.models import GENERATIVE_TASKS, Task
from versiontree.artifact_store import FileEntry, files_digest
from versiontree.names import require_slug
from versiontree.transfer.archive.layout import (
    ARCHIVE_TYPE,
    CARD,
    CONFIG,
    FORMAT,
    MAX_TEXT_BYTES,
    Contents,
    Node,
    artifact_files,
    artifact_prefix,
    invalid_archive,
    kind_of_root,
)
from versiontree.transfer.archive.metrics import node_check
from versiontree.tree.models import RootKind
from versiontree.tree.models.hplm import MAX_DESCRIPTION_LENGTH
from versiontree.tree.models.version import OPTIONAL_ROLES, REQUIRED_ROLES, VersionKind
from versiontree.tree.selectors.lineage import COMPACTS

MAX_LENGTHS: Final = {"license": 100, "source_url": 300, "task": 20, "description": MAX_DESCRIPTION_LENGTH}
MAX_BRANCH_LENGTH: Final = 256
TEXTS: Final = (".json", ".md", ".jinja")
MAX_BYTES_OF: Final = {"tokenizer.json": 64 * 1024**2}
"""A vocabulary of a quarter of a million pieces takes 17 MB."""
MAX_NAME_LENGTH: Final = 512
_NAME_PART: Final = re.compile(r"(?!\.\.?\Z)[A-Za-z0-9_.+-]{1,200}\Z")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}\Z")
_ABOVE: Final = {
    VersionKind.HPLM: {VersionKind.DOMAIN, VersionKind.ROOT},
    VersionKind.DOMAIN: {VersionKind.DOMAIN, VersionKind.ROOT},
    VersionKind.ROOT: {VersionKind.ROOT},
}
Kind = TypeVar("Kind")


def manifest_contents(manifest: Mapping[str, Any], config: Mapping[str, Any]) -> Contents:
    """The contents that the two files describe. Raises ``invalid_archive`` with what is inconsistent.

    Digests of artifacts are compared with the checksums of their files, which the reader compares later.
    """
    lineage = _typed(manifest, "lineage", list)
    configs = [config, *_typed(config, "lineage", list)]
    if len(lineage) > MAX_BRANCH_LENGTH or len(configs) != len(lineage) + 1:
        raise invalid_archive("The manifest and the config have different lineages.")
    entries = [manifest, *lineage]
    kind = _root_kind(entries[-1])
    nodes = tuple(_node(entry, about, kind) for entry, about in zip(entries, configs, strict=True))
    _check_order(nodes)
    branch = _typed(manifest, "branch", bool)
    contents = Contents(nodes, branch or len(nodes) == 1, manifest_files(manifest))
    _check_files(contents)
    return contents


def manifest_files(manifest: Mapping[str, Any]) -> dict[str, FileEntry]:
    """The files of a manifest, by name. Raises ``invalid_archive``, also for an unknown format."""
    if manifest.get("type") != ARCHIVE_TYPE:
        raise invalid_archive("This is not an archive of a version.")
    if manifest.get("format") != FORMAT:
        found = repr(manifest.get("format"))[:40]
        raise invalid_archive(f"The archive has format {found}; this site reads {FORMAT}.")
    return {name: _entry(name, entry) for name, entry in _typed(manifest, "files", dict).items()}


def _entry(name: str, found: Any) -> FileEntry:
    if len(name) > MAX_NAME_LENGTH or not all(_NAME_PART.match(part) for part in name.split("/")):
        raise invalid_archive(f"{name[:80]!r} is not a valid file name in an archive.")
    complete = isinstance(found, dict) and found.keys() == {"sha256", "size"}
    size = found["size"] if complete else None
    if not complete or not _is_digest(found["sha256"]) or type(size) is not int or not 0 <= size < 2**63:
        raise invalid_archive(f"The manifest does not say the sha256 and the size of {name[:80]!r}.")
    return {"sha256": found["sha256"], "size": size}


def _root_kind(entry: Any) -> RootKind:
    """The kind of the root in the last entry of a lineage. `_node` checks the entry."""
    digests = entry.get("digests") if isinstance(entry, dict) else None
    return kind_of_root(digests if isinstance(digests, dict) else ())


def _node(entry: Any, about: Any, root: RootKind) -> Node:
    if not isinstance(entry, dict) or not isinstance(about, dict):
        raise invalid_archive("A version in the lineage is not an object.")
    kind = _typed(entry, "kind", str)
    if kind not in VersionKind.values:
        raise invalid_archive(f"Unknown kind of version: {kind[:40]!r}.")
    digests, number = _typed(entry, "digests", dict), entry.get("number")
    if type(number) is not int or not 0 < number < 2**31:
        raise invalid_archive("A version has no number.")
    required = REQUIRED_ROLES[root].get(VersionKind(kind))
    if required is None:
        raise invalid_archive(f"The root is {root.in_words}. A {kind} cannot be built on it.")
    optional = OPTIONAL_ROLES[root].get(VersionKind(kind), frozenset())
    task = _text(entry, "task")
    complete = required <= digests.keys() <= required | optional
    if not complete or not all(map(_is_digest, digests.values())):
        raise invalid_archive(f"A version of the kind {kind} does not have the artifacts it needs.")
    node = Node(
        kind=VersionKind(kind),
        name=_slug(_typed(entry, "name", str)),
        number=number,
        digests=digests,
        task=task,
        license=_text(entry, "license"),
        source_url=_text(entry, "source_url"),
        description=_text(entry, "description"),
        config=_typed(about, "config", dict),
        metrics=_typed(about, "metrics", dict),
    )
    if entry.get("digest") != node.digest:
        raise invalid_archive(f"The digest of {node.name} is not that of its main artifact.")
    if (node.kind == VersionKind.HPLM) != (node.task in Task.values):
        raise invalid_archive(f"The task {node.task[:40]!r} is not valid for {node.name}.")
    if node.task and (node.task in GENERATIVE_TASKS) != (root == RootKind.DECODER):
        raise invalid_archive(f"The root is {root.in_words}. A model for {node.task} cannot be built on it.")
    node_check(node)
    return node


def _check_order(nodes: tuple[Node, ...]) -> None:
    for below, above in pairwise(nodes):
        if above.kind not in _ABOVE[below.kind]:
            raise invalid_archive(f"{below.name} cannot be built on {above.name}.")
    if nodes[-1].kind != VersionKind.ROOT:
        raise invalid_archive("The lineage does not end at a root.")
    for place, node in enumerate(nodes):
        if COMPACTS in node.config and node.kind != VersionKind.DOMAIN:
            raise invalid_archive(f"{node.name} compacts tables, as only domains do.")
        held = node.config.get(COMPACTS, ())
        fits = all(type(at) is int and place < at < len(nodes) for at in held)
        if not fits or any(nodes[at].kind != VersionKind.DOMAIN for at in held):
            raise invalid_archive(f"{node.name} compacts tables that are not above it.")


def _check_files(contents: Contents) -> None:
    expected = {CARD, CONFIG}
    for kind, digest in contents.artifacts():
        files = artifact_files(contents.files, kind, digest)
        if not files or files_digest(files) != digest:
            raise invalid_archive(f"The files of the artifact {kind}/{digest[:12]} do not have its digest.")
        if odd := sorted(files.keys() - contents.allowed_files[kind]):
            raise invalid_archive(f"{odd[0][:80]!r} is not part of an artifact of the kind {kind}.")
        for name, entry in files.items():
            _check_size(name, entry)
        expected |= {artifact_prefix(kind, digest) + name for name in files}
    if odd := sorted(expected ^ contents.files.keys()):
        raise invalid_archive(f"{odd[0][:80]} is missing from the manifest, or does not belong in it.")
    _check_size(CARD, contents.files[CARD])


def _check_size(name: str, entry: FileEntry) -> None:
    """Limit the size of files that are read into memory as text. Weights and tables have no limit."""
    limit = MAX_BYTES_OF.get(name, MAX_TEXT_BYTES if name.endswith(TEXTS) else None)
    if limit is not None and entry["size"] > limit:
        raise invalid_archive(f"{name} is longer than {limit:,} bytes.", limit=limit)


def _typed(found: Mapping[str, Any], name: str, kind: type[Kind]) -> Kind:
    value = found.get(name)
    if not isinstance(value, kind):
        raise invalid_archive(f"{name} is missing from the manifest or the config, or is invalid.")
    return value


def _text(entry: Mapping[str, Any], name: str) -> str:
    value = entry.get(name, "")
    one_line = name != "description"
    if not isinstance(value, str) or len(value) > MAX_LENGTHS[name] or (one_line and not value.isprintable()):
        raise invalid_archive(f"{name} in the manifest is not a short text.")
    return value


def _slug(name: str) -> str:
    try:
        return require_slug(name)
    except HmiError as error:
        raise invalid_archive(f"{name[:80]!r} is not a name. {error.message}") from error


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and _DIGEST.match(value) is not None
