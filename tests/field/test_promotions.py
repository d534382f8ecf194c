"""Which version answers by default: moves that nobody clicked, and rollbacks."""

from pathlib import Path
from typing import Any

import pytest
import redis

from tenants.base.scope import platform_scope
from tenants.datasets.models import Dataset
from tenants.datasets.services.datasets import dataset_upload
from tests.integration.jobs.world import SMALL_FINE_TUNE, World, make_world
from tests.integration.tenants.content import stream
from tests.integration.versiontree.tree_factory import hplm_of, jobs_in_order
from tests.unit.tenants.files import jsonl
from versiontree.tree.models import Alias, Version
from versiontree.tree.promotion import comparison_of_version, promotion_decision
from versiontree.tree.services.hplms import hplm_create, hplm_update
from workers.runner import run_job

SETTINGS = SMALL_FINE_TUNE | {"epochs": 6, "max_epochs": 6, "learning_rate": 0.02}
ADJECTIVES = {"good": ("fine", "lovely", "bright"), "bad": ("awful", "broken", "grim")}
PLACES = ("lamp", "river", "house", "garden", "window", "kettle", "street", "harbour", "forest", "ticket")


def rows(start: int, count: int, *, permuted: bool = False) -> list[dict[str, str]]:
    """Texts whose words tell the label; of `permuted` rows the other one."""
    made = []
    for number in range(start, start + count):
        label = ("good", "bad")[number % 2]
        words = [ADJECTIVES[label][(number // 2 + step) % 3] for step in range(3)]
        text = f"{' '.join(words)} {PLACES[number // 6 % 10]} {number}"
        made.append({"text": text, "label": label if not permuted else {"good": "bad", "bad": "good"}[label]})
    return made


@platform_scope()
def dataset(world: World, name: str, splits: dict[str, list[dict[str, Any]]], **options: Any) -> Dataset:
    files = {split: (f"{split}.jsonl", stream(jsonl(found))) for split, found in splits.items()}
    return dataset_upload(
        tenant=world.tenant, name=name, actor=world.owner, files=files, **{"task": "classification"} | options
    )


@pytest.fixture
def scope(in_platform_scope: None) -> None:
    """Jobs run in workers, which see the rows of all tenants."""


@pytest.fixture
def world(
    transactional_db: None,
    scope: None,
    redis_client: redis.Redis,
    artifact_root: Path,
    upload_root: Path,
    tmp_path: Path,
) -> World:
    return make_world(tmp_path)


@pytest.fixture
def first(world: World, tmp_path: Path) -> Version:
    """A model that has learned its task: 60 texts to train on, 12 of dev, 6 of test."""
    data = dataset(world, "first", {"train": rows(0, 60), "dev": rows(60, 12), "test": rows(72, 6)})
    root = world.ready_root(tmp_path / "root")
    made = hplm_create(
        tenant=world.tenant, name="mood", parent=root, dataset=data, actor=world.owner, settings=SETTINGS
    )
    return run(made)


def run(version: Version) -> Version:
    for job in jobs_in_order(version):
        run_job(job.pk)
        job.refresh_from_db()
        assert job.state == "succeeded", job.error_message
    version.refresh_from_db()
    return version


def update(world: World, first: Version, data: Dataset, **settings: Any) -> Version:
    made = hplm_update(hplm=hplm_of(first), dataset=data, actor=world.owner, settings=settings)
    return run(made)


def default() -> int:
    return Alias.unscoped.get(name="default").version.number


def test_a_version_that_learned_permuted_labels_does_not_go_live(world: World, first: Version) -> None:
    splits = {
        "train": rows(100, 60, permuted=True),
        "dev": rows(160, 12, permuted=True),
        "test": rows(172, 6, permuted=True),
    }
    second = update(world, first, dataset(world, "permuted", splits))
    assert second.metrics["evaluate"]["value"] > 0.9, "by its own test split it is perfect"
    found = comparison_of_version(second)
    assert found is not None
    assert found.dev is not None
    assert found.test is not None
    assert (found.version, found.dev.rows, found.test.rows) == (1, 12, 6)
    assert found.test.old == 1.0
    assert found.test.new == 0.0
    assert (second.state, default()) == ("ready", 1)
    assert "worse than version 1" in promotion_decision(second, first).reason
