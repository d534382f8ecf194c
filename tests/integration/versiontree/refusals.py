"""A service that refuses leaves no trace."""

from collections.abc import Callable

import pytest

from tenants.audit.models import AuditEvent
from tenants.base.errors import ErrorCode, HmiError
from versiontree.jobs.models import Job, JobEvent
from versiontree.tree.models import Domain, Hplm, Root, Version

ROWS = (Root, Domain, Hplm, Version, Job, JobEvent, AuditEvent)


def refused(act: Callable[[], object], code: ErrorCode, param: str | None = None) -> HmiError:
    """It is refused with this code, naming this parameter, and no row is left behind."""
    before = rows_of_all()
    with pytest.raises(HmiError) as caught:
        act()
    assert (caught.value.code, caught.value.param) == (code, param)
    assert rows_of_all() == before
    return caught.value


def rows_of_all() -> list[int]:
    """How many rows there are of each kind that a service writes."""
    return [row._default_manager.count() for row in ROWS]
