"""Check the quotas of jobs, models and storage, under one lock for each tenant.

A fine-tuning reserves its jobs and its model when it is created, before they exist. ``reserved_by`` is the
fine-tuning that now creates them, so its own reservation does not count.

Jobs of rebases that the platform started (``by_platform``) are counted apart, up to the same quota, so that
they take no job from the tenant's own.
"""

from typing import Final

from django.db.models import Q, QuerySet

from tenants.accounts.models import Tenant
from tenants.base.errors import ErrorCode, HmiError
from tenants.usage.services.quotas import (
    quota_check,
    quota_check_storage,
    quota_lock,
)
from versiontree.jobs.models import ACTIVE, Job, JobKind
from versiontree.tree.models import FineTuning, FineTuningState, Hplm
from versiontree.tree.selectors.lineage import BY_PLATFORM, REBASE

JOBS_PER_HPLM_VERSION: Final = 2
"""Fine-tune and evaluate. The job of a quick version takes seconds and does not count."""
_OF_PLATFORM: Final = Q(version__config__contains={REBASE: BY_PLATFORM})


def quota_reserve_jobs(
    *,
    tenant: Tenant | None,
    adding: int,
    reserved_by: FineTuning | None = None,
    by_platform: bool = False,
) -> None:
    """Lock the tenant's quota and check that it allows so many more jobs. The platform has no quota."""
    if tenant is None:
        return
    quota_lock(tenant=tenant)
    having = _platform_jobs(tenant) if by_platform else jobs_in_use(tenant, reserved_by)
    quota_check(tenant=tenant, what="active jobs", having=having, adding=adding)


def quota_reserve_version(
    *,
    tenant: Tenant | None,
    jobs: int,
    reserved_by: FineTuning | None = None,
    by_platform: bool = False,
) -> None:
    """As ``quota_reserve_jobs``, and check that the tenant's storage is not full.

    The size of the new artifacts is not known yet, so one free byte is enough.
    """
    quota_reserve_jobs(tenant=tenant, adding=jobs, reserved_by=reserved_by, by_platform=by_platform)
    if tenant is not None:
        quota_check_storage(tenant=tenant, adding_bytes=1)


def quota_reserve_hplm(
    *, tenant: Tenant, name: str, param: str = "name", reserved_by: FineTuning | None = None
) -> None:
    """Check that the tenant may have one more model of this name. Call it under the quota's lock.

    Raises ``quota_exceeded``, and what ``hplm_name_check`` raises.
    """
    quota_check(tenant=tenant, what="models", having=hplms_in_use(tenant, reserved_by))
    hplm_name_check(tenant=tenant, name=name, param=param, reserved_by=reserved_by)


def hplm_name_check(
    *, tenant: Tenant, name: str, param: str = "name", reserved_by: FineTuning | None = None
) -> None:
    """Raise ``conflict`` if a model has the name, or a fine-tuning reserved it. Call it under the quota's
    lock."""
    living = Hplm.objects.for_tenant(tenant).filter(deleted_at=None)
    reserved = _pending(tenant, reserved_by).filter(hplm=None)
    if living.filter(name=name).exists():
        raise HmiError(ErrorCode.CONFLICT, f"A model named {name!r} already exists.", param=param)
    if reserved.filter(name=name).exists():
        message = f"A fine-tuning is already creating a model named {name!r}."
        raise HmiError(ErrorCode.CONFLICT, message, param=param)


def jobs_in_use(tenant: Tenant, reserved_by: FineTuning | None = None) -> int:
    """How many active jobs count against the tenant's quota."""
    active = jobs_counted().filter(tenant=tenant).count()
    return active + JOBS_PER_HPLM_VERSION * _pending(tenant, reserved_by).count()


def jobs_counted() -> QuerySet[Job]:
    """The active jobs that count against the quotas of their tenants."""
    return Job.shown.filter(state__in=ACTIVE).exclude(kind=JobKind.QUICK).exclude(_OF_PLATFORM)


def is_counted(job: Job) -> bool:
    """Whether an active job counts against the quota of its tenant, as `jobs_counted` says of many."""
    rebase = job.version.config.get(REBASE, {}) if job.version else {}
    return job.kind != JobKind.QUICK and not rebase.items() >= BY_PLATFORM.items()


def _platform_jobs(tenant: Tenant) -> int:
    return Job.shown.filter(_OF_PLATFORM, tenant=tenant, state__in=ACTIVE).count()


def hplms_in_use(tenant: Tenant, reserved_by: FineTuning | None = None) -> int:
    """How many models count against the tenant's quota."""
    living = Hplm.objects.for_tenant(tenant).filter(deleted_at=None).count()
    return living + _pending(tenant, reserved_by).filter(hplm=None).count()


def _pending(tenant: Tenant, excluded: FineTuning | None) -> QuerySet[FineTuning]:
    """The fine-tunings that were created and not started."""
    pending = FineTuning.objects.for_tenant(tenant).filter(state=FineTuningState.VALIDATING)
    return pending if excluded is None else pending.exclude(pk=excluded.pk)
