"""As whom PostgreSQL runs. It refuses root, so under root it needs another identity."""

import os
import pwd
from collections.abc import Iterator
from pathlib import Path

from hmi_site.embedded.lifeline import USER_NAMESPACE
from hmi_site.embedded.process import ChildError, plain_environment, run_tied


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
