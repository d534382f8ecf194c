"""Archives as somebody with bad intentions would write them."""

import hashlib
import io
import json
import stat
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

from versiontree.artifact_store import files_digest

Members = dict[str, bytes]


def members_of(archive: bytes) -> Members:
    """The files of a zip file by name."""
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def zip_of(members: Mapping[str, bytes], *, compressed: bool = False) -> bytes:
    """A zip file of plain files."""
    out = io.BytesIO()
    method = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return out.getvalue()


def zip_with(members: Mapping[str, bytes], *more: tuple[zipfile.ZipInfo, bytes]) -> bytes:
    """A zip file of plain files, and then these entries."""
    out = io.BytesIO(zip_of(members))
    with zipfile.ZipFile(out, "a") as archive:
        for about, content in more:
            archive.writestr(about, content)
    return out.getvalue()


def symlink(name: str, target: str) -> tuple[zipfile.ZipInfo, bytes]:
    """An entry that unpackers make a symbolic link of."""
    about = zipfile.ZipInfo(name)
    about.create_system, about.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    return about, target.encode()


def told(
    members: Members, change: Callable[[dict[str, Any]], object], name: str = "manifest.json"
) -> Members:
    """The members with one of their JSON files changed; the manifest knows of it."""
    content = json.loads(members[name])
    change(content)
    changed = {**members, name: json.dumps(content).encode()}
    return changed if name == "manifest.json" else resealed(changed)


def resealed(members: Members) -> Members:
    """The members with a manifest that names every one as it is, and artifacts by the digests they have."""
    manifest = json.loads(members["manifest.json"])
    files = {name: content for name, content in members.items() if name != "manifest.json"}
    artifacts: dict[tuple[str, str], dict[str, bytes]] = {}
    for name, content in files.items():
        if name.startswith("artifacts/"):
            _, kind, digest, part = name.split("/", 3)
            artifacts.setdefault((kind, digest), {})[part] = content
    kept = {name: content for name, content in files.items() if not name.startswith("artifacts/")}
    for (kind, digest), parts in artifacts.items():
        found = files_digest({part: entry(content) for part, content in parts.items()})  # type: ignore[misc]
        kept |= {f"artifacts/{kind}/{found}/{part}": content for part, content in parts.items()}
        for node in (manifest, *manifest["lineage"]):
            node["digests"] = {r: found if d == digest else d for r, d in node["digests"].items()}
            node["digest"] = found if node["digest"] == digest else node["digest"]
    manifest["files"] = {name: entry(content) for name, content in kept.items()}
    return {"manifest.json": json.dumps(manifest).encode(), **kept}


def entry(content: bytes) -> dict[str, Any]:
    """What a manifest says of a file."""
    return {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}


def with_part(members: Members, ending: str, content: bytes) -> Members:
    """The members with other content for the file whose name ends so, and everything named accordingly."""
    (name,) = (name for name in members if name.endswith(ending))
    return resealed({**members, name: content})


def beside(members: Members, ending: str, name: str, content: bytes) -> Members:
    """The members with one more file beside the one whose name ends so."""
    (found,) = (name for name in members if name.endswith(ending))
    return resealed({**members, f"{found.rsplit('/', 1)[0]}/{name}": content})
