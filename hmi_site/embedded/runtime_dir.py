"""The folder of the unix sockets of one HMI_HOME.

A socket's path may not pass 107 bytes, so it cannot stand beside the data of a deep checkout. Every
process of an installation must find it without being told, so its name follows from HMI_HOME alone.
"""

import contextlib
import hashlib
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

from hmi_site.embedded.lifeline import USER_NAMESPACE
from hmi_site.embedded.process import ChildError, plain_environment, run_tied

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


def identity_for(*, data: Path, program: Path, runtime: Path) -> str:
    """The identity (see `lifeline`) that may run `program` and owns `data`; '' is ourselves.

    An existing data folder keeps the identity that made it. `data` and `runtime` exist afterwards as folders
    of that identity. Raises ChildError when nobody fits.
    """
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.getuid() != 0:
        return ""
    for identity in _candidates(data):
        give(data, identity)
        give(runtime, identity)
        if _works(identity, program=program, data=data):
            return identity
    raise ChildError(
        "PostgreSQL does not run as root, and no other identity can reach both "
        f"{program} and {data}.\nRun as an ordinary user, or move the checkout and HMI_HOME to a "
        "folder that others may enter, or name an external server in DATABASE_URL."
    )


def give(folder: Path, identity: str) -> None:
    """Make `folder` belong to the identity (root keeps its access)."""
    uid, gid = (0, 0) if identity in {"", USER_NAMESPACE} else map(int, identity.split(":"))
    os.chown(folder, uid, gid)


def _candidates(data: Path) -> Iterator[str]:
    if (data / "PG_VERSION").exists():
        owner = data.stat()
        yield f"{owner.st_uid}:{owner.st_gid}" if owner.st_uid else USER_NAMESPACE
        return
    yield USER_NAMESPACE
    for folder in data.parents:  # a checkout in somebody's private home folder: that person
        owner = folder.stat()
        if owner.st_uid:
            yield f"{owner.st_uid}:{owner.st_gid}"
            break
    nobody = pwd.getpwnam("nobody")
    yield f"{nobody.pw_uid}:{nobody.pw_gid}"


def _works(identity: str, *, program: Path, data: Path) -> bool:
    test = ["/bin/sh", "-c", 'test -w "$1" && "$0" --version', str(program), str(data)]
    return run_tied(test, identity=identity, env=plain_environment()).returncode == 0
