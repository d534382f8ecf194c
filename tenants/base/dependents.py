"""What stands in the way when something is to be deleted."""

from collections.abc import Sequence
from typing import Any, Final

from django.db.models import Model

from tenants.base.errors import ErrorCode, HmiError

NAMED: Final = 3
LISTED: Final = 20


def has_dependents(message: str, rows: Sequence[Model], *, param: str | None = None) -> HmiError:
    """The error that says so: how many there are (``details.count``), the first of them (``dependents``), and
    in words still fewer."""
    listed = [_told(row) for row in rows[:LISTED]]
    names = ", ".join(one["name"] for one in listed[:NAMED])
    more = f" and {len(rows) - NAMED} more" if len(rows) > NAMED else ""
    return HmiError(
        ErrorCode.HAS_DEPENDENTS,
        f"{message}: {names}{more}.",
        param=param,
        details={"count": len(rows), "dependents": listed},
    )


def _told(row: Model) -> dict[str, Any]:
    key = row.pk if isinstance(row.pk, int) else str(row.pk)
    kind = str(row._meta.verbose_name).replace(" ", "").lower()  # a word of its users: an Hplm is a model
    return {"type": kind, "id": key, "name": str(row)}
