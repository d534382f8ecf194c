"""Writing an archive, as a folder or as a zip file that is never whole in memory or on disk."""

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
    MANIFEST,
    UNTOLD,
    Contents,
    Node,
    artifact_prefix,
    config_json,
    manifest_json,
)
from versiontree.transfer.archive.model_card import model_card
from versiontree.tree.models.version import VersionKind
from versiontree.tree.selectors.lineage import COMPACTS, LineageStep, compacted_versions

CHUNK: Final = 1024**2
_THEN: Final = (1980, 1, 1, 0, 0, 0)
"""One date for all files, so that the same version gives the same bytes."""


@dataclass(frozen=True, slots=True)
class Member:
    """A file to be: its bytes, or where they are stored."""

    name: str
    entry: FileEntry
    content: bytes | Path


def archive_members(store: ArtifactStore, steps: Sequence[LineageStep], *, branch: bool) -> list[Member]:
    """The files of the archive of a version, the manifest first; `steps` lead from it to its root."""
    told, nodes = _lineage(steps)
    members = [member_of(CARD, model_card(nodes).encode()), member_of(CONFIG, _json(config_json(nodes)))]
    for step in told if branch else told[:1]:
        for role, artifact in sorted(step.artifacts.items()):
            folder, prefix = store.path(role, artifact.digest), artifact_prefix(role, artifact.digest)
            members += [
                Member(prefix + name, entry, folder / name) for name, entry in sorted(artifact.files.items())
            ]
    members = list({member.name: member for member in members}.values())
    files = {member.name: member.entry for member in members}
    return [member_of(MANIFEST, _json(manifest_json(Contents(nodes, branch, files)))), *members]


def archive_card(steps: Sequence[LineageStep]) -> str:
    """The model card of a version; `steps` lead from it to its root."""
    return model_card(_lineage(steps)[1])


def _lineage(steps: Sequence[LineageStep]) -> tuple[list[LineageStep], tuple[Node, ...]]:
    """What an archive tells of: the version, then the domains and the root it stands on."""
    told = [steps[0], *(step for step in steps[1:] if step.version.kind != VersionKind.HPLM)]
    places = {step.version.pk: place for place, step in enumerate(told)}
    return told, tuple(_node(step, places) for step in told)


def folder_write(members: Sequence[Member], folder: Path) -> None:
    """Write the archive into a new folder. Raises ``ArtifactDamaged`` when what is stored was changed."""
    for member in members:
        target = folder / member.name
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as stream:
            for chunk in _chunks(member):
                stream.write(chunk)


def zip_stream(members: Sequence[Member]) -> Iterator[bytes]:
    """The archive as a zip file (stored, not compressed: weights do not shrink), chunk by chunk.

    Ends with ``ArtifactDamaged``, and without the directory that would make it a zip file, when what is
    stored was changed.
    """
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive:
        for member in members:
            about = zipfile.ZipInfo(member.name, _THEN)
            about.external_attr = 0o644 << 16
            about.file_size = member.entry["size"]
            with archive.open(about, "w") as stream:
                for chunk in _chunks(member):
                    stream.write(chunk)
                    yield sink.take()
    yield sink.take()


class _Sink(io.RawIOBase):
    """A file that is only written to; what was written is taken away."""

    def __init__(self) -> None:
        self._waiting: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._waiting.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        """All that was written since the last time."""
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


def _node(step: LineageStep, places: Mapping[int, int]) -> Node:
    version = step.version
    hplm, domain, root = version.hplm, version.domain, version.root
    of_root = version.kind == VersionKind.ROOT
    held = [places[pk] for pk in compacted_versions(version.config) if pk in places]
    config = {name: value for name, value in version.config.items() if name not in UNTOLD | {COMPACTS}}
    return Node(
        kind=VersionKind(version.kind),
        name=version.name,
        number=version.number,
        digests={role: artifact.digest for role, artifact in step.artifacts.items()},
        task=hplm.task if hplm else "",
        licence=hplm.license if hplm else root.license if of_root else "",
        source_url=root.source_url if of_root else "",
        description=hplm.description if hplm else domain.description if domain else "",
        config=_without_ids(config) | ({COMPACTS: held} if held else {}),
        metrics=version.metrics,
    )


def _without_ids(config: Mapping[str, Any]) -> dict[str, Any]:
    """Ids of data mean nothing elsewhere; names and checksums do."""
    return {
        name: {key: part for key, part in value.items() if key != "id"}
        if name in ("dataset", "corpus") and isinstance(value, Mapping)
        else value
        for name, value in config.items()
    }


def _json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def member_of(name: str, content: bytes) -> Member:
    """A file of this content."""
    return Member(name, {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}, content)


def file_member(path: Path) -> Member:
    """A file of this name and content, which is read when it is written."""
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return Member(path.name, {"sha256": digest, "size": path.stat().st_size}, path)
