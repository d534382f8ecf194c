"""Reading from the artifact store, only when the files are the ones that were published."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from inference.hplm.errors import HplmError
from inference.hplm.hplm import Hplm
from inference.manifest import ServedHplm


def load_verified(folder: Path, served: ServedHplm) -> Hplm:
    """The hPLM in ``folder``; HplmError(corrupt_artifact) when a file is absent, altered or unreadable."""
    verify(folder, served.files)
    hplm = Hplm.load(folder)
    if hplm.task != served.task:
        raise HplmError("corrupt_artifact", f"published for {served.task}, made for {hplm.task}")
    return hplm


def verify(folder: Path, files: Mapping[str, str]) -> None:
    """HplmError(corrupt_artifact) unless each file is there with the sha256 that stands beside its name."""
    for name, expected in files.items():
        if _sha256(folder / name) != expected:
            raise HplmError("corrupt_artifact", f"{name} is damaged: its checksum is not the published one")


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise HplmError("corrupt_artifact", f"{path.name} cannot be read: {error.strerror}") from error
