"""The folder of the Unix sockets of an HMI_HOME.

A socket's path is limited to 107 bytes, so it cannot be in HMI_HOME, which may be deep. Its name is derived
from HMI_HOME, so that every process of an installation finds it.
"""

import contextlib
import hashlib
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

from hmi_site.embedded.parent_death import USER_NAMESPACE
from hmi_site.embedded.process import ChildError, clean_environment, run_command

SOCKET_BASE = Path("/tmp")  # noqa: S108 - short, and made private by `create_private_folder`


class RuntimeDirError(RuntimeError):
    """The folder exists but belongs to another user."""


def runtime_dir(home: Path) -> Path:
    """The folder of a home's sockets: about 30 bytes long, unique for home and user."""
    digest = hashlib.sha256(os.fsencode(home.resolve())).hexdigest()[:16]
    return SOCKET_BASE / f"hmi-{os.getuid()}-{digest}"


def create_private_folder(folder: Path) -> None:
    """Create a folder that only this user can access. RuntimeDirError if it belongs to another user."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise RuntimeDirError(
            f"{folder} is not a folder of this user; remove it, or set HMI_RUNTIME_DIR to another."
        )
    folder.chmod(0o700)


def close_to_others(folder: Path) -> bool:
    """Create a folder of data, and take all rights from other users. False if it belongs to another user, who
    left it open."""
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(PermissionError):
        folder.chmod(0o700)
    return not stat.S_IMODE(folder.stat().st_mode) & 0o077


def remove_stale_files(folder: Path) -> None:
    """Remove the files of stopped processes, and the folder if it is then empty."""
    kinds = ("*.ready", "*.sock", "*.json", ".s.PGSQL.*")
    for file in (file for kind in kinds for file in folder.glob(kind)):
        file.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def find_identity(*, data: Path, program: Path, runtime: Path) -> str:
    """The identity (see `parent_death`) that can run ``program`` and owns ``data``. Empty: the current user.

    An existing data folder keeps its owner. Creates ``data``, and makes the identity the owner of both.
    Raises ChildError if there is none.
    """
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.getuid() != 0:
        return ""
    for identity in _candidates(data):
        set_owner(data, identity)
        set_owner(runtime, identity)
        if identity != USER_NAMESPACE:  # another user must pass through HMI_HOME, and needs to see no names
            data.parent.chmod(stat.S_IMODE(data.parent.stat().st_mode) | 0o011)
        if _can_run(identity, program=program, data=data):
            return identity
    raise ChildError(
        "PostgreSQL does not run as root, and no other user can access both "
        f"{program} and {data}.\nRun as an ordinary user, or move the checkout and HMI_HOME to a "
        "folder that other users can access, or set DATABASE_URL to an external server."
    )


def set_owner(folder: Path, identity: str) -> None:
    """Make the identity the owner of a folder. Root keeps its access."""
    uid, gid = (0, 0) if identity in {"", USER_NAMESPACE} else map(int, identity.split(":"))
    os.chown(folder, uid, gid)


def _candidates(data: Path) -> Iterator[str]:
    if (data / "PG_VERSION").exists():
        owner = data.stat()
        yield f"{owner.st_uid}:{owner.st_gid}" if owner.st_uid else USER_NAMESPACE
        return
    yield USER_NAMESPACE
    for folder in data.parents:  # a checkout in a user's private home folder: that user
        owner = folder.stat()
        if owner.st_uid:
            yield f"{owner.st_uid}:{owner.st_gid}"
            break
    nobody = pwd.getpwnam("nobody")
    yield f"{nobody.pw_uid}:{nobody.pw_gid}"


def _can_run(identity: str, *, program: Path, data: Path) -> bool:
    test = ["/bin/sh", "-c", 'test -w "$1" && "$0" --version', str(program), str(data)]
    return run_command(test, identity=identity, env=clean_environment()).returncode == 0
