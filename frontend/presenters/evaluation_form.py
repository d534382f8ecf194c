"""The form that evaluates a version on a dataset."""

from typing import Any, Final

from tenants.accounts.models import Tenant
from versiontree.tree.models import Version
from versiontree.tree.selectors.evaluations import datasets_like

DATASETS_OFFERED: Final = 50


def evaluate_form(tenant: Tenant, version: Version, dataset: int | None = None) -> dict[str, Any]:
    """Return the context of the form: the active job of the version, or datasets to choose from. `dataset`
    is the one that is chosen first."""
    job = next((job for job in version.jobs.all() if job.is_active), None)
    datasets = datasets_like(tenant, version, limit=DATASETS_OFFERED)
    return {"evaluated": version, "job": job, "datasets": datasets, "chosen": dataset or version.dataset_id}
