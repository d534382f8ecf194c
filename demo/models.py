"""The demo's models, as the report shows them and as the traffic calls them."""

from dataclasses import dataclass
from typing import Any

from demo.datasets import TASKS, DemoTask
from demo.job_progress import DemoError
from demo.people import logins_read
from demo.traffic import ModelTraffic, test_texts
from tenants.accounts.models import Tenant
from tenants.datasets.models import DatasetSplit
from tenants.datasets.storage import stored_path
from versiontree.tree.models import Hplm, Version


@dataclass(frozen=True, slots=True)
class DemoModel:
    """One model of the demo: its row in the report, and what to send it."""

    row: dict[str, Any]
    traffic: ModelTraffic


def demo_models() -> list[DemoModel]:
    """Every encoder model of the demo tree, with its test texts as traffic."""
    keys = {name: login.api_key for name, login in logins_read().items()}
    return [_model(task, keys[task.tenant]) for task in TASKS]


def ready_version(task: DemoTask) -> Version:
    """The latest ready version of the task's model, with its parent.

    Raises DemoError if somebody deleted the model.
    """
    return _ready_versions(task)[-1]


def split_of(task: DemoTask, split: str) -> DatasetSplit:
    """A split of the task's dataset."""
    tenant = Tenant.objects.get(slug=task.tenant)
    return DatasetSplit.objects.for_tenant(tenant).get(dataset__name=task.hplm, split=split)


def _ready_versions(task: DemoTask) -> list[Version]:
    tenant = Tenant.objects.get(slug=task.tenant)
    hplm = Hplm.objects.for_tenant(tenant).filter(name=task.hplm, deleted_at=None).first()
    versions = hplm and list(hplm.versions.select_related("parent").filter(state=Version.State.READY))
    if not versions:
        raise DemoError(f"{task.tenant}/{task.hplm} was deleted.")
    return sorted(versions, key=lambda version: version.number)


def _model(task: DemoTask, api_key: str) -> DemoModel:
    versions = _ready_versions(task)
    quick = [version for version in versions if version.is_quick]
    trained = versions[-1]
    test = trained.metrics["evaluate"]
    row = {
        "Model": f"{task.tenant}/{task.hplm}",
        "train": split_of(task, "train").rows,
        "metric": test["metric"],
        "majority": 100 * test["majority_baseline"],
        "quick": 100 * quick[0].metrics["evaluate"]["value"] if quick else "",
        "trained": 100 * test["value"],
        "PET KB": round(trained.artifact_links.get(role="hplm").artifact.size / 1000),
        "what it does": task.about,
        "levels": {level: 100 * test["levels"][level] for level in ("table", "cascade", "full")},
    }
    texts = test_texts(stored_path(split_of(task, "test").sha256))
    return DemoModel(row, ModelTraffic(row["Model"], api_key, texts))
