"""Which version answers by default: moves that nobody clicked, and rollbacks."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import redis
from django.test import Client
from scipy.stats import binomtest

from frontend.presenters.formatting import metric_on_rows
from tenants.base.errors import HmiError
from tenants.base.scope import platform_scope
from tenants.datasets.models import Dataset
from tenants.datasets.services.datasets import dataset_upload
from tests.integration.jobs.world import SMALL_FINE_TUNE, World, make_world
from tests.integration.tenants.content import stream
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.callers import V1, error, with_key
from tests.integration.versiontree.tree_factory import TenantFixture, hplm_of, jobs_in_order
from tests.unit.tenants.files import jsonl
from tests.unit.workers.training.world import NullReporter
from versiontree.tree.models import Alias, Version
from versiontree.tree.promotion import comparison_of_version, promotion_decision
from versiontree.tree.selectors.alias_history import alias_history
from versiontree.tree.services.aliases import alias_move, alias_roll_back
from versiontree.tree.services.hplms import hplm_create, hplm_update
from versiontree.tree.services.version_jobs import VersionJobs
from workers.jobs.comparison import held_out
from workers.runner import run_job
from workers.training.paired_test import p_value_worse

SETTINGS = SMALL_FINE_TUNE | {"epochs": 20, "max_epochs": 20, "learning_rate": 0.005}
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
def acme(db: None, scope: None, artifact_root: Path, redis_url: str) -> TenantFixture:
    return tree_factory.create_tenant("acme")


@pytest.fixture
def root(acme: TenantFixture, tmp_path: Path) -> Version:
    return tree_factory.ready_root(tmp_path)


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


def test_a_version_that_learned_permuted_labels_does_not_go_live(
    world: World, first: Version, client: Client
) -> None:
    splits = {
        "train": rows(100, 60, permuted=True),
        "dev": rows(160, 12, permuted=True),
        "test": rows(172, 6, permuted=True),
    }
    # Another shape of the PET: trained from the root, since version 1 holds on to its labels.
    second = update(world, first, dataset(world, "permuted", splits), adapter=8)
    assert second.metrics["evaluate"]["value"] > 0.9, "by its own test split it is perfect"
    found = comparison_of_version(second)
    assert found is not None
    assert found.dev is not None
    assert found.test is not None
    assert (found.version, found.dev.rows, found.test.rows) == (1, 12, 6)
    assert (found.test.old, found.test.new) == (1.0, 0.0)
    assert (second.state, default()) == ("ready", 1)
    assert "worse than version 1" in promotion_decision(second, first).reason
    assert "@default was not moved to it: It is worse" in VersionJobs().ready_note(version_id=second.pk)

    client.force_login(world.owner)
    page = client.get("/t/acme/models/mood/").content.decode()
    assert "v2 is ready, but @default was not moved to it" in page


@pytest.mark.parametrize("rows", [5, 13, 40])
@pytest.mark.parametrize("broken", [0.0, 0.3, 1.0])
def test_for_right_and_wrong_answers_the_paired_test_is_the_sign_test(rows: int, broken: float) -> None:
    draw = np.random.default_rng(rows)
    old = np.column_stack([np.ones(rows), np.ones(rows)])
    new = old.copy()
    new[:, 0] = draw.random(rows) >= broken
    old[0, 0], new[0, 0] = 0.0, 1.0
    lost, won = int((new[:, 0] < old[:, 0]).sum()), int((new[:, 0] > old[:, 0]).sum())
    expected = binomtest(lost, lost + won, alternative="greater").pvalue
    found = p_value_worse(old, new, lambda sums: np.asarray(sums[..., 0] / sums[..., 1]))
    assert found == pytest.approx(expected, abs=0.015)


def test_rows_that_the_new_version_learned_from_are_left_out(tmp_path: Path) -> None:
    dev, train = tmp_path / "dev.jsonl", tmp_path / "train.jsonl"
    dev.write_text(jsonl([{"text": f"Text {number}!", "label": "a"} for number in range(10)]))
    train.write_text(jsonl([{"text": f"TEXT  {number}", "label": "b"} for number in range(4)]))
    out = tmp_path / "out.jsonl"
    assert held_out(dev, [train], out, NullReporter()) == (6, 4)
    assert out.read_text().count("\n") == 6
    assert held_out(dev, [dev], out, NullReporter()) == (0, 10)
    dev.write_text(jsonl([{"text": f"Text {number}!", "label": "a"} for number in range(1_000)]))
    assert held_out(dev, [train], out, NullReporter()) == (400, 4), "a sample bounds the cost"


PAIRED = {"rows": 100, "left_out": 0, "metric": "accuracy", "old": 0.9, "new": 0.88, "p_value": 0.4}


@pytest.mark.parametrize(
    ("against", "moves", "reason"),
    [
        ({"version": 1, "dev": PAIRED}, True, "not worse than version 1"),
        ({"version": 1, "dev": PAIRED | {"p_value": 0.049}}, False, "worse than version 1 on the dev rows"),
        ({"version": 1, "dev": PAIRED | {"new": 0.95, "p_value": 1.0}}, True, "not worse"),
        ({"version": 1, "dev": PAIRED | {"rows": 4, "p_value": 0.0625}}, False, "worse than version 1"),
        (
            {"version": 1, "dev": PAIRED | {"metric": "loss", "old": 2.0, "new": 3.0, "p_value": 0.01}},
            False,
            "worse than version 1",
        ),
        ({"version": 1, "dev": {"rows": 0, "left_out": 12}, "test": PAIRED}, False, "trained on all 12"),
        (
            {"version": 1, "problem": "Version 1 was imported, so its dev rows are not known."},
            False,
            "import",
        ),
        ({"version": 7, "dev": PAIRED}, False, "compared with version 7, not with version 1"),
        ({"version": 1, "test": PAIRED}, False, "no dev row"),
        (None, False, "not compared with version 1"),
    ],
)
def test_one_rule_decides_every_move_of_an_alias_that_nobody_clicked(
    against: dict[str, Any] | None, moves: bool, reason: str
) -> None:
    second = Version(number=2, metrics={"evaluate": {"value": 1.0, "against": against}})
    decision = promotion_decision(second, Version(number=1))
    assert decision.moves == moves
    assert reason in decision.reason
    assert promotion_decision(second, None).moves, "a first version"


@pytest.mark.parametrize("against", [None, {"version": 1, "dev": PAIRED | {"p_value": 0.01}}])
def test_a_version_that_is_worse_or_was_not_compared_is_ready_and_waits_for_its_owner(
    against: dict[str, Any] | None, root: Version, acme: TenantFixture
) -> None:
    first = tree_factory.do_jobs(tree_factory.new_hplm(root, "spam", acme))
    second = hplm_update(hplm=hplm_of(first), dataset=acme.dataset, actor=None)
    tuning, evaluating = jobs_in_order(second)
    tree_factory.do_job(tuning)
    tree_factory.do_job(evaluating, value=1.0, **({"against": against} if against else {}))
    second.refresh_from_db()
    assert (second.state, default()) == ("ready", 1)


def test_few_rows_are_shown_as_counts_with_an_interval() -> None:
    assert metric_on_rows("accuracy", 1.0, 6) == "6 of 6, 95% interval 61% to 100%"
    assert metric_on_rows("accuracy", 0.0, 6) == "0 of 6, 95% interval 0% to 39%"
    assert metric_on_rows("micro_f1", 2 / 3, 6) == "66.7% on 6 rows"
    assert metric_on_rows("accuracy", 0.5, 1_000) == "50.0%"


@pytest.fixture
def versions(root: Version, acme: TenantFixture) -> Sequence[Version]:
    """Three versions of a model, promoted one after the other."""
    made = [tree_factory.do_jobs(tree_factory.new_hplm(root, "spam", acme))]
    for _ in range(2):
        update = hplm_update(hplm=hplm_of(made[0]), dataset=acme.dataset, actor=None)
        made.append(tree_factory.do_jobs(update))
    assert default() == 3
    return made


@pytest.mark.usefixtures("versions")
def test_two_people_who_roll_back_in_one_incident_go_back_once(acme: TenantFixture) -> None:
    key, address = with_key(acme, "manage"), f"{V1}/models/spam/aliases/default/rollback"
    named = {"from_version": 3, "reason": "worse"}
    first = key.post(address, named).json()
    assert (first["from_version"], first["version"], first["moved"]) == (3, 2, True)
    for body in (named, {}, {"reason": "worse"}):
        again = key.post(address, body).json()
        assert (again["from_version"], again["version"], again["moved"]) == (3, 2, False)
    further = key.post(address, {"from_version": 2}).json()
    assert (further["version"], further["moved"]) == (1, True)
    assert error(key.post(address, {"from_version": 1})) == (409, "conflict", "alias")
    assert error(key.post(address, {"from_version": 3})) == (409, "conflict", "from_version")
    assert key.post(address, {}).json()["moved"] is False
    assert default() == 1


@pytest.mark.parametrize("seed", range(3))
def test_rollbacks_never_restore_what_was_rolled_back(seed: int, versions: Sequence[Version]) -> None:
    draw, hplm, bad = random.Random(seed), hplm_of(versions[0]), set[int]()
    for _ in range(12):
        current = default()
        if draw.random() < 0.5:
            chosen = draw.choice([one for one in versions if one.number != current])
            before = alias_history(hplm, "default").rollback_target
            alias_move(hplm=hplm, name="default", version=chosen, actor=None)
            bad = bad - {chosen.number} | ({current} if chosen == before else set())
            continue
        named = draw.choice([None, current])
        try:
            done = alias_roll_back(hplm=hplm, name="default", actor=None, from_version=named)
        except HmiError:
            assert alias_history(hplm, "default").rollback_target is None
            continue
        if done.moved:
            assert done.from_version.number == current
            bad.add(current)
        assert default() not in bad - {current} or not done.moved
        twice = alias_roll_back(hplm=hplm, name="default", actor=None, from_version=done.from_version.number)
        assert (twice.moved, twice.alias.version_id) == (False, done.alias.version_id)
