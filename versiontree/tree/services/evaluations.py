"""Record the answers of evaluated versions, and request evaluations."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from tenants.accounts.models import Tenant
from tenants.audit.services import Actor, audit_record
from tenants.base.errors import ErrorCode, HmiError, require_found
from tenants.datasets.models import Dataset, Split
from versiontree.jobs.models import ACTIVE, Job, JobKind
from versiontree.tree.models import Artifact, Evaluation, Hplm, Version
from versiontree.tree.models.version import VersionState
from versiontree.tree.services.quota_reservations import quota_reserve_jobs
from versiontree.tree.services.versions import JobPlan, dataset_check, job_create, tables_check, version_lock
from versiontree.tree.serving_manifest import takes_pairs


def evaluation_record(*, version: Version, artifact: Artifact, dataset: Mapping[str, Any]) -> None:
    """Record the artifact with a version's answers to the test split of a dataset (the params of its job).

    Call it in the transaction that ends the job.
    """
    assert version.tenant is not None, "only models are evaluated, and each has a tenant"
    Evaluation.unscoped.update_or_create(
        version=version,
        test_sha256=dataset["splits"][Split.TEST],
        defaults={"tenant": version.tenant, "artifact": artifact, "dataset_name": dataset["name"]},
    )


@transaction.atomic
def evaluation_request(*, version: Version, dataset: Dataset, tenant: Tenant, actor: Actor) -> Job:
    """Queue a job that evaluates a ready version of a model on the test split of a dataset of the same task.

    The version's metrics do not change. Raises ``not_found`` (deleted model, another tenant's dataset),
    ``model_not_ready``, ``invalid_field`` (another task), ``conflict`` (a job of the version is active),
    ``quota_exceeded``.
    """
    quota_reserve_jobs(tenant=tenant, adding=1)
    living = Hplm.objects.for_tenant(tenant).filter(versions=version, deleted_at=None)
    hplm = require_found(living.select_for_update(no_key=True, of=("self",)).first(), "model", param="model")
    locked = version_lock(version_id=version.pk)
    chosen = dataset_check(dataset=dataset, tenant=tenant)
    _check(locked, hplm, dataset)
    plan = JobPlan(JobKind.EVALUATE, {"dataset": chosen, "settings": {}})
    job = job_create(version=locked, plan=plan, after=None, actor=actor)
    detail = {"version": locked.number, "dataset": dataset.name}
    audit_record(
        verb="model.evaluate", subject=f"{tenant.slug}/{hplm.name}", tenant=tenant, actor=actor, detail=detail
    )
    return job


def _check(version: Version, hplm: Hplm, dataset: Dataset) -> None:
    if version.state != VersionState.READY:
        raise HmiError(
            ErrorCode.MODEL_NOT_READY,
            f"Version {version.number} of {hplm.name} is {version.get_state_display().lower()}; only a ready"
            " one can be evaluated.",
            param="version",
        )
    tables_check(version, param="version")
    if dataset.task != hplm.task or dataset.pairs != takes_pairs(hplm.task, version.config):
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            f"The dataset {dataset.name} is for another task than {hplm.name}.",
            param="dataset",
        )
    if Job.unscoped.filter(version=version, state__in=ACTIVE).exists():
        raise HmiError(
            ErrorCode.CONFLICT,
            f"Version {version.number} of {hplm.name} has an active job: wait until it has ended.",
            param="version",
        )
