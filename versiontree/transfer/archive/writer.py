"""Write an archive as a folder, or stream it as a zip file."""

import hashlib
import io
import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from versiontree.artifact_store import ArtifactDamaged, ArtifactStore, FileEntry
from versiontree.transfer.archive.layout import (
    CARD,
    CONFIG,
    LOCAL_CONFIG_KEYS,
    MANIFEST,
    Contents,
    Node,
    artifact_prefix,
    config_json,
    manifest_json,
)
from versiontree.transfer.archive.model_card import model_card
from versiontree.tree.models import Artifact
from versiontree.tree.models.version import OPTIONAL_ROLES, VersionKind
from versiontree.tree.root_kind import RootKind
from versiontree.tree.selectors.lineage import COMPACTS, LineageStep, compacted_versions

CHUNK: Final = 1024**2
_FIXED_DATE: Final = (1980, 1, 1, 0, 0, 0)
"""The same date for all files, so that the same version gives the same bytes."""


@dataclass(frozen=True, slots=True)
class Member:
    """A file of an archive: its content as bytes, or the path of its content."""

    name: str
    entry: FileEntry
    content: bytes | Path


def archive_members(store: ArtifactStore, steps: Sequence[LineageStep], *, branch: bool) -> list[Member]:
    """The files of the archive of a version, the manifest first; `steps` lead from it to its root."""
    chain, nodes = _lineage(steps)
    members = [
        bytes_member(CARD, model_card(nodes).encode()),
        bytes_member(CONFIG, _json(config_json(nodes))),
    ]
    for step in chain if branch else chain[:1]:
        for role, artifact in sorted(_archived(step).items()):
            folder, prefix = store.path(role, artifact.digest), artifact_prefix(role, artifact.digest)
            members += [
                Member(prefix + name, entry, folder / name) for name, entry in sorted(artifact.files.items())
            ]
    members = list({member.name: member for member in members}.values())
    files = {member.name: member.entry for member in members}
    return [bytes_member(MANIFEST, _json(manifest_json(Contents(nodes, branch, files)))), *members]


def archive_card(steps: Sequence[LineageStep]) -> str:
    """The model card of a version; `steps` lead from it to its root."""
    return model_card(_lineage(steps)[1])


def _lineage(steps: Sequence[LineageStep]) -> tuple[list[LineageStep], tuple[Node, ...]]:
    """The steps and nodes of an archive: the version, its domains and its root."""
    chain = [steps[0], *(step for step in steps[1:] if step.version.kind != VersionKind.HPLM)]
    indexes = {step.version.pk: index for index, step in enumerate(chain)}
    return chain, tuple(_node(step, indexes) for step in chain)


def folder_write(members: Sequence[Member], folder: Path) -> None:
    """Write the archive into a new folder. Raises ``ArtifactDamaged`` if a stored file was changed."""
    for member in members:
        target = folder / member.name
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as stream:
            for chunk in _chunks(member):
                stream.write(chunk)


def zip_stream(members: Sequence[Member]) -> Iterator[bytes]:
    """The chunks of the archive as a zip file, not compressed, because weights hardly shrink.

    Raises ``ArtifactDamaged`` if a stored file was changed; the zip file is then incomplete.
    """
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive:
        for member in members:
            about = zipfile.ZipInfo(member.name, _FIXED_DATE)
            about.external_attr = 0o644 << 16
            about.file_size = member.entry["size"]
            with archive.open(about, "w") as stream:
                for chunk in _chunks(member):
                    stream.write(chunk)
                    yield sink.take()
    yield sink.take()


class _Sink(io.RawIOBase):
    """A write-only file whose content is taken in chunks."""

    def __init__(self) -> None:
        self._waiting: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._waiting.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        """The bytes written since the last call."""
        taken, self._waiting = b"".join(self._waiting), []
        return taken


def _chunks(member: Member) -> Iterator[bytes]:
    if isinstance(member.content, bytes):
        yield member.content
        return
    digest = hashlib.sha256()
    try:
        with member.content.open("rb") as stream:
            while chunk := stream.read(CHUNK):
                digest.update(chunk)
                yield chunk
    except OSError as error:
        raise ArtifactDamaged(f"{member.name} cannot be read from the store: {error.strerror}.") from error
    if digest.hexdigest() != member.entry["sha256"]:
        raise ArtifactDamaged(f"{member.name} was changed on disk.")


def _archived(step: LineageStep) -> dict[str, Artifact]:
    """The artifacts that an archive holds of a version, by role. The task head that a root came with is not
    among them: the model that was made of it has its own copy."""
    version = step.version
    optional = OPTIONAL_ROLES[RootKind(version.root.kind)].get(VersionKind(version.kind), frozenset())
    roles = version.required_roles | optional
    return {role: artifact for role, artifact in step.artifacts.items() if role in roles}


def _node(step: LineageStep, indexes: Mapping[int, int]) -> Node:
    version = step.version
    hplm, domain, root = version.hplm, version.domain, version.root
    of_root = version.kind == VersionKind.ROOT
    merged = [indexes[pk] for pk in compacted_versions(version.config) if pk in indexes]
    config = {
        name: value for name, value in version.config.items() if name not in LOCAL_CONFIG_KEYS | {COMPACTS}
    }
    return Node(
        kind=VersionKind(version.kind),
        name=version.name,
        number=version.number,
        digests={role: artifact.digest for role, artifact in _archived(step).items()},
        task=hplm.task if hplm else "",
        license=hplm.license if hplm else root.license if of_root else "",
        source_url=root.source_url if of_root else "",
        description=hplm.description if hplm else domain.description if domain else "",
        config=_without_ids(config) | ({COMPACTS: merged} if merged else {}),
        metrics=version.metrics,
    )


def _without_ids(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config without ids of datasets and corpora, which mean nothing on another site."""
    return {
        name: {key: part for key, part in value.items() if key != "id"}
        if name in ("dataset", "corpus") and isinstance(value, Mapping)
        else value
        for name, value in config.items()
    }


def _json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def bytes_member(name: str, content: bytes) -> Member:
    """A member with this content."""
    return Member(name, {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}, content)


def file_member(path: Path) -> Member:
    """A member with the name and content of this file."""
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return Member(path.name, {"sha256": digest, "size": path.stat().st_size}, path)
