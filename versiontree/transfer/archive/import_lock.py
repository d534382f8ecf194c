"""Whose turn it is to import or to convert on this machine: few at a time and one of a tenant, so that
strangers' files do not fill its disk, memory and cores, and no tenant keeps the others from it.

Locks on bytes of one file, which the system drops with the process that held them, however that ended.
"""

import fcntl
import hashlib
import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Final

from django.conf import settings

from tenants.accounts.models import Tenant
from tenants.base.errors import ErrorCode, HmiError

AT_ONCE: Final = 2
"""Of each kind, on a machine: a tenant that always has its one leaves another for the rest."""
RETRY_AFTER_S: Final = 15
_LOCK: Final = "hhqqi4x"
"""`struct flock` of Linux on 64 bits: type, from where, start, length, process."""


class LockedWork(StrEnum):
    """What is done in turns. Each kind has its own."""

    IMPORT = "import"
    CONVERSION = "conversion"


@contextmanager
def import_lock(kind: LockedWork, tenant: Tenant | None) -> Iterator[None]:
    """Hold the tenant's turn (None: the platform's), and one of this machine's.

    Raises ``queue_full`` while the tenant has one already, or all are taken; nobody waits in here.
    """
    file = os.open(_lock_file(kind), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        owner = AT_ONCE + (tenant.pk if tenant else 0)
        if not _locked(file, owner):
            raise _full(f"One {kind} of yours is under way already; start the next when it is done.", 1)
        if not any(_locked(file, place) for place in range(AT_ONCE)):
            raise _full(f"{AT_ONCE} of this machine are under way already; try again in a moment.", AT_ONCE)
        yield
    finally:
        os.close(file)


def _locked(file: int, byte: int) -> bool:
    """Lock a byte for as long as the file is open here; false while somebody else has it."""
    wanted = struct.pack(_LOCK, fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
    try:
        # Of the open file, not of the process: two threads shut each other out.
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, wanted)
    except BlockingIOError:
        return False
    return True


def _full(message: str, limit: int) -> HmiError:
    return HmiError(ErrorCode.QUEUE_FULL, message, details={"limit": limit}, retry_after=RETRY_AFTER_S)


def _lock_file(kind: LockedWork) -> Path:
    """In this machine's own temporary folder, because the artifact store may be shared by many machines."""
    site = hashlib.sha256(str(Path(settings.HMI_ARTIFACT_ROOT).resolve()).encode()).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"hmi-{kind}-{os.getuid()}-{site}.lock"
