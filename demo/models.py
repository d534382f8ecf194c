"""The demo's models, as the report shows them and as the traffic calls them."""

from dataclasses import dataclass
from typing import Any

from demo.datasets import TASKS, DemoTask
from demo.job_progress import DemoError
from demo.people import logins_read
from demo.traffic import ModelTraffic, test_texts
from tenants.accounts.models import Tenant
from tenants.datasets.models import Dataset
from tenants.datasets.storage import stored_path
from versiontree.tree.models import Hplm, Version


@dataclass(frozen=True, slots=True)
class DemoModel:
    """One model of the demo: its row in the report, and what to send it."""

    row: dict[str, Any]
    traffic: ModelTraffic


def demo_models() -> list[DemoModel]:
    """Every model of the demo tree, with its test texts as traffic."""
    keys = {name: login.api_key for name, login in logins_read().items()}
    return [_model(task, keys[task.tenant]) for task in TASKS]


def _model(task: DemoTask, api_key: str) -> DemoModel:
    tenant = Tenant.objects.get(slug=task.tenant)
    hplm = Hplm.objects.for_tenant(tenant).filter(name=task.hplm, deleted_at=None).first()
    if hplm is None:
        raise DemoError(f"{task.tenant}/{task.hplm} is gone: somebody deleted it.")
    version = hplm.versions.select_related("parent").filter(state=Version.State.READY).latest("number")
    dataset = Dataset.objects.for_tenant(tenant).get(name=task.hplm)
    splits = {split.split: split for split in dataset.splits.all()}
    test = version.metrics["evaluate"]
    levels = test["levels"]
    artifact = version.artifact_links.get(role="hplm").artifact
    row = {
        "Model": f"{tenant.slug}/{hplm.name}",
        "task": task.task,
        "parent": str(version.parent),
        "train": splits["train"].rows,
        "metric": test["metric"],
        "test": 100 * test["value"],
        **{f"at {level}": 100 * levels[level] for level in ("table", "cascade", "full")},
        "majority": 100 * test["majority_baseline"],
        "usual tag": f"{100 * test['word_baseline']:.1f}" if "word_baseline" in test else "",
        "PET KB": round(artifact.size / 1000),
    }
    return DemoModel(row, ModelTraffic(row["Model"], api_key, test_texts(stored_path(splits["test"].sha256))))
