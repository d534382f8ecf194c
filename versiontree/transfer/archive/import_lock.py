"""How many imports and conversions run on a machine at once: few, and one of a tenant, so that strangers'
files do not fill its disk, memory and cores, and no tenant keeps the others from it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from typing import Final

from tenants.accounts.models import Tenant
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.machine_lock import machine_lock

AT_ONCE: Final = 2
"""Of each kind, on a machine: a tenant that always has its one leaves another for the rest."""
RETRY_AFTER_S: Final = 15


class LockPurpose(StrEnum):
    """What is limited. Each kind has its own locks."""

    IMPORT = "import"
    CONVERSION = "conversion"


@contextmanager
def import_lock(kind: LockPurpose, tenant: Tenant | None) -> Iterator[None]:
    """Hold the tenant's lock (None: the platform's), and one of this machine's.

    Raises ``queue_full`` while the tenant has one already, or all are taken; nobody waits in here.
    """
    with ExitStack() as held:
        owner = tenant.pk if tenant else "platform"
        if not held.enter_context(machine_lock(f"{kind}-of-{owner}")):
            raise _full(f"One {kind} of yours is under way already; start the next when it is done.", 1)
        if not any(held.enter_context(machine_lock(f"{kind}-{place}")) for place in range(AT_ONCE)):
            raise _full(f"{AT_ONCE} of this machine are under way already; try again in a moment.", AT_ONCE)
        yield


def _full(message: str, limit: int) -> HmiError:
    return HmiError(ErrorCode.QUEUE_FULL, message, details={"limit": limit}, retry_after=RETRY_AFTER_S)
