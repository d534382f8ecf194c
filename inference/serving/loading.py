"""Reading an hPLM from the artifact store, only when its files are the ones that were published."""

import hashlib
from pathlib import Path

import torch

from inference.hplm.errors import HplmError
from inference.hplm.hplm import Hplm
from inference.manifest import ServedHplm


def load_verified(folder: Path, served: ServedHplm, device: torch.device, dtype: torch.dtype) -> Hplm:
    """The hPLM in ``folder``; HplmError(corrupt_artifact) when a file is absent, altered or unreadable."""
    for name, expected in served.files.items():
        if _sha256(folder / name) != expected:
            raise HplmError("corrupt_artifact", f"{name} is damaged: its checksum is not the published one")
    hplm = Hplm.load(folder, device, dtype)
    if hplm.task != served.task:
        raise HplmError("corrupt_artifact", f"published for {served.task}, made for {hplm.task}")
    return hplm


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise HplmError("corrupt_artifact", f"{path.name} cannot be read: {error.strerror}") from error
