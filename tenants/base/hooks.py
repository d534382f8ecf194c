"""Hooks: functions that applications register so that those below them can call them without knowing them.

Each application registers its own in the ``ready`` of its ``AppConfig``.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from django.db.models import Model

if TYPE_CHECKING:
    from tenants.accounts.models import Tenant
    from tenants.datasets.models import File, UploadCheck
    from tenants.datasets.services.check_results import Checked
from collections.abc import Sequence
from typing import Final

from tenants.base.errors import ErrorCode, HmiError

log = logging.getLogger(__name__)


P = ParamSpec("P")


R = TypeVar("R")


class Hook(Generic[P, R]):
    """The functions that were registered for one purpose, in the order of registration."""

    def __init__(self) -> None:
        self._functions: list[Callable[P, R]] = []

    def register(self, function: Callable[P, R]) -> None:
        """Have the function called each time; registering it again changes nothing."""
        if function not in self._functions:
            self._functions.append(function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> list[R]:
        """Call all and return what they returned. The first exception is raised."""
        return [function(*args, **kwargs) for function in self._functions]

    def call_each(self, *args: P.args, **kwargs: P.kwargs) -> list[R]:
        """The same, but an exception is logged, and the others are called nevertheless."""
        results = []
        for function in self._functions:
            try:
                results.append(function(*args, **kwargs))
            except Exception:
                log.exception("%s failed", getattr(function, "__qualname__", function))
        return results


@dataclass(frozen=True, slots=True)
class TakeoutPart:
    """One file of a takeout: its name within it, and its bytes piece by piece."""

    name: str
    chunks: Iterable[bytes]


serving_changed: Hook[[], None] = Hook()
"""Inference workers must be told of a change to a tenant. Called inside its transaction."""


tenant_deletion: "Hook[[Tenant], None]" = Hook()
"""All data of a tenant is to be deleted. Called inside the transaction; whoever refuses raises
``HmiError``."""


file_users: "Hook[[File], Iterable[Model]]" = Hook()
"""The rows that still need a file, so that it cannot be deleted. Called while its row is locked."""


storage_used: "Hook[[Tenant], int]" = Hook()
"""How many bytes of the tenant's quota of storage something takes."""


check_details: "Hook[[UploadCheck, Checked], dict[str, Any]]" = Hook()
"""What else there is to say of files that passed a check. Called while the checked files are there."""


takeout_parts: "Hook[[Tenant], Iterator[TakeoutPart]]" = Hook()
"""What a takeout holds of the tenant."""


recovery: Hook[[], object] = Hook()
"""Called every few seconds by a worker: work whose message or worker was lost is dispatched again."""


expiry: Hook[[], object] = Hook()
"""Called every hour by a worker: rows and files whose time is over are deleted."""


NAMED: Final = 3


LISTED: Final = 20


def has_dependents(message: str, rows: Sequence[Model], *, param: str | None = None) -> HmiError:
    """The error that says so: how many there are (``details.count``), the first of them (``dependents``), and
    in words still fewer."""
    listed = [_details(row) for row in rows[:LISTED]]
    names = ", ".join(one["name"] for one in listed[:NAMED])
    more = f" and {len(rows) - NAMED} more" if len(rows) > NAMED else ""
    return HmiError(
        ErrorCode.HAS_DEPENDENTS,
        f"{message}: {names}{more}.",
        param=param,
        details={"count": len(rows), "dependents": listed},
    )


def _details(row: Model) -> dict[str, Any]:
    key = row.pk if isinstance(row.pk, int) else str(row.pk)
    kind = str(row._meta.verbose_name).replace(" ", "").lower()  # a word of its users: an Hplm is a model
    return {"type": kind, "id": key, "name": str(row)}
