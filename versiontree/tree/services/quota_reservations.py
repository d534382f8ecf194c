"""Whether there is room for what a tenant asks for. It is decided here, under one lock, so that nobody takes
what somebody else was promised.

A fine-tuning is accepted when it is asked for, and its files are read later: until then the jobs and the
model that it is to make count as if they were there. ``reserved_by`` is the one whose turn has come: what it
was promised does not stand in its own way.
"""

from typing import Final

from django.db.models import QuerySet

from tenants.accounts.models import Tenant
from tenants.base.errors import ErrorCode, HmiError
from tenants.usage.services.quotas import (
    quota_check_active_jobs,
    quota_check_models,
    quota_check_storage,
    quota_lock,
)
from versiontree.jobs.models import ACTIVE, Job
from versiontree.tree.models import FineTuning, FineTuningState, Hplm
from versiontree.tree.selectors.versions import artifact_bytes

JOBS_PER_HPLM_VERSION: Final = 2
"""One fine-tunes a version, and one measures it."""


def quota_reserve_jobs(*, tenant: Tenant | None, adding: int, reserved_by: FineTuning | None = None) -> None:
    """Lock the tenant's quota and check that so many jobs still fit; the platform has none."""
    if tenant is None:
        return
    quota_lock(tenant=tenant)
    quota_check_active_jobs(tenant=tenant, having=jobs_in_use(tenant, reserved_by), adding=adding)


def quota_reserve_version(*, tenant: Tenant | None, jobs: int, reserved_by: FineTuning | None = None) -> None:
    """As ``quota_reserve_jobs``, and refuse when uploads and artifacts have filled the tenant's storage.

    How big the new artifacts will be nobody knows yet, so one byte of room is enough.
    """
    quota_reserve_jobs(tenant=tenant, adding=jobs, reserved_by=reserved_by)
    if tenant is not None:
        quota_check_storage(tenant=tenant, adding_bytes=1, beside_uploads=artifact_bytes(tenant))


def quota_reserve_hplm(
    *, tenant: Tenant, name: str, param: str = "name", reserved_by: FineTuning | None = None
) -> None:
    """May the tenant have one more model, called so? For a transaction that has the quota's lock.

    Raises ``quota_exceeded``, and ``conflict`` where the name is taken or promised.
    """
    quota_check_models(tenant=tenant, having=hplms_in_use(tenant, reserved_by))
    living = Hplm.objects.for_tenant(tenant).filter(deleted_at=None)
    promised = _pending(tenant, reserved_by).filter(hplm=None)
    if living.filter(name=name).exists():
        raise HmiError(ErrorCode.CONFLICT, f"There is a model called {name!r} already.", param=param)
    if promised.filter(name=name).exists():
        message = f"A fine-tuning that has been asked for makes a model called {name!r}."
        raise HmiError(ErrorCode.CONFLICT, message, param=param)


def jobs_in_use(tenant: Tenant, reserved_by: FineTuning | None = None) -> int:
    """How many active jobs count against the tenant's quota."""
    active = Job.objects.for_tenant(tenant).filter(state__in=ACTIVE).count()
    return active + JOBS_PER_HPLM_VERSION * _pending(tenant, reserved_by).count()


def hplms_in_use(tenant: Tenant, reserved_by: FineTuning | None = None) -> int:
    """How many models do."""
    living = Hplm.objects.for_tenant(tenant).filter(deleted_at=None).count()
    return living + _pending(tenant, reserved_by).filter(hplm=None).count()


def _pending(tenant: Tenant, but: FineTuning | None) -> QuerySet[FineTuning]:
    """The fine-tunings that were accepted and have not begun."""
    waiting = FineTuning.objects.for_tenant(tenant).filter(state=FineTuningState.VALIDATING)
    return waiting if but is None else waiting.exclude(pk=but.pk)
