"""Limit the imports and conversions that run on a machine at once, in all and for each tenant."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from typing import Final

from tenants.accounts.models import Tenant
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.machine_lock import machine_lock

MAX_CONCURRENT: Final = 2
"""The limit of each kind on a machine. A tenant can run one, so others can always run another."""
RETRY_AFTER_S: Final = 15


class LockPurpose(StrEnum):
    """What a lock is for. Each purpose has its own limits."""

    IMPORT = "import"
    CONVERSION = "conversion"


@contextmanager
def import_lock(kind: LockPurpose, tenant: Tenant | None) -> Iterator[None]:
    """Hold the tenant's lock (None: the platform's), and one of this machine's.

    Does not wait: raises ``queue_full`` if the tenant has one already, or all of the machine are taken.
    """
    with ExitStack() as held:
        owner = tenant.pk if tenant else "platform"
        if not held.enter_context(machine_lock(f"{kind}-of-{owner}")):
            raise _full(f"Your {kind} is still running. Start the next one when it has ended.", 1)
        if not any(held.enter_context(machine_lock(f"{kind}-{slot}")) for slot in range(MAX_CONCURRENT)):
            raise _full(
                f"This machine already runs {MAX_CONCURRENT}. Try again in a moment.",
                MAX_CONCURRENT,
            )
        yield


def _full(message: str, limit: int) -> HmiError:
    return HmiError(ErrorCode.QUEUE_FULL, message, details={"limit": limit}, retry_after=RETRY_AFTER_S)
