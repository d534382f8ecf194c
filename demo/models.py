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
    tenant = Tenant.objects.get(slug=task.tenant)
    hplm = Hplm.objects.for_tenant(tenant).filter(name=task.hplm, deleted_at=None).first()
    if hplm is None:
        raise DemoError(f"{task.tenant}/{task.hplm} was deleted.")
    return hplm.versions.select_related("parent").filter(state=Version.State.READY).latest("number")


def split_of(task: DemoTask, split: str) -> DatasetSplit:
    """A split of the task's dataset."""
    tenant = Tenant.objects.get(slug=task.tenant)
    return DatasetSplit.objects.for_tenant(tenant).get(dataset__name=task.hplm, split=split)


def _model(task: DemoTask, api_key: str) -> DemoModel:
    version = ready_version(task)
    test = version.metrics["evaluate"]
    levels = test["levels"]
    row = {
        "Model": f"{task.tenant}/{task.hplm}",
        "task": task.task,
        "parent": str(version.parent),
        "train": split_of(task, "train").rows,
        "metric": test["metric"],
        "test": 100 * test["value"],
        **{f"at {level}": 100 * levels[level] for level in ("table", "cascade", "full")},
        "majority": 100 * test["majority_baseline"],
        "usual tag": f"{100 * test['word_baseline']:.1f}" if "word_baseline" in test else "",
        "PET KB": round(version.artifact_links.get(role="hplm").artifact.size / 1000),
    }
    texts = test_texts(stored_path(split_of(task, "test").sha256))
    return DemoModel(row, ModelTraffic(row["Model"], api_key, texts))
