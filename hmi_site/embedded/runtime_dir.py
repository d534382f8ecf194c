"""The folder of the unix sockets of one HMI_HOME.

A socket's path may not pass 107 bytes, so it cannot stand beside the data of a deep checkout. Every
process of an installation must find it without being told, so its name follows from HMI_HOME alone.
"""

import contextlib
import hashlib
import os
import stat
from pathlib import Path

SOCKET_BASE = Path("/tmp")  # noqa: S108 - short, and made private by `make_private`


class RuntimeDirError(RuntimeError):
    """The folder exists but is not ours alone."""


def runtime_dir(home: Path) -> Path:
    """The folder for the sockets of this home: about 30 bytes long, different for every home and user."""
    digest = hashlib.sha256(os.fsencode(home.resolve())).hexdigest()[:16]
    return SOCKET_BASE / f"hmi-{os.getuid()}-{digest}"


def make_private(folder: Path) -> None:
    """Create `folder` for this user alone, or refuse one that somebody else prepared."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise RuntimeDirError(
            f"{folder} is not a folder of this user; remove it, or set HMI_RUNTIME_DIR to another."
        )
    folder.chmod(0o700)


def remove_leftovers(folder: Path) -> None:
    """Remove what processes that were stopped or killed left there, and the folder if that empties it."""
    kinds = ("*.ready", "*.sock", "*.json", ".s.PGSQL.*")
    for file in (file for kind in kinds for file in folder.glob(kind)):
        file.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()
