"""Running a job: what it leaves when it ends well, badly, twice or not at all; what an update starts from."""

import hashlib
import shutil
import threading
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest
from django.db import connection

from tenants.base.errors import ErrorCode
from tenants.datasets.services.datasets import dataset_upload
from tests.integration.jobs.world import World, at_stage, make_endless, store
from tests.integration.tenants.content import stream
from tests.integration.versiontree.tree_factory import hplm_of, jobs_in_order
from tests.processes import wait_until
from tests.unit.tenants.files import jsonl
from versiontree.jobs.models import Job, JobEvent
from versiontree.tree.models import Artifact, Version, VersionArtifact
from versiontree.tree.services.hplms import hplm_update
from versiontree.tree.services.roots import root_register
from workers.runner import run_job


@pytest.fixture
def fine_tune(world: World, tmp_path: Path) -> Job:
    """A queued fine-tuning job, with the root it needs."""
    root = world.ready_root(tmp_path / "root")
    return jobs_in_order(world.create_hplm(root))[0]


def leftovers() -> list[Path]:
    """What lies in the store's workspaces."""
    return list((store().root / ".incoming").iterdir())


def deliver(job: Job) -> None:
    """What a Celery task does, in a thread of its own."""
    run_job(job.pk)
    connection.close()


def test_a_job_that_ends_well_leaves_its_artifact_and_queues_the_next(fine_tune: Job) -> None:
    run_job(fine_tune.pk)
    fine_tune.refresh_from_db()
    assert (fine_tune.state, fine_tune.progress, fine_tune.attempt) == ("succeeded", 1.0, 1)
    link = VersionArtifact.unscoped.get(version=fine_tune.version, role="hplm")
    store().verify("hplm", link.artifact.digest)
    assert fine_tune.metrics["labels"] == ["bad", "good"]
    assert jobs_in_order(fine_tune.version)[1].state == "queued"
    assert leftovers() == []


def test_the_trivial_answers_are_learnt_on_the_training_split(world: World, tmp_path: Path) -> None:
    rows = {"train": ["good"] * 9 + ["bad"] * 3, "dev": ["good", "bad"], "test": ["bad"] * 3 + ["good"]}
    files = {}
    for split, labels in rows.items():
        examples = [{"text": f"{split} {n}", "label": label} for n, label in enumerate(labels)]
        files[split] = (f"{split}.jsonl", stream(jsonl(examples)))
    dataset = dataset_upload(
        tenant=world.tenant, name="lopsided", task="classification", files=files, actor=world.owner
    )
    version = world.create_hplm(world.ready_root(tmp_path / "root"), dataset=dataset)
    for job in jobs_in_order(version):
        run_job(job.pk)
    version.refresh_from_db()
    found = version.metrics["evaluate"]
    assert (found["majority_label"], found["majority_baseline"]) == ("good", 0.25)


def test_a_second_delivery_of_a_job_does_nothing(fine_tune: Job) -> None:
    run_job(fine_tune.pk)
    events = JobEvent.unscoped.filter(job=fine_tune).count()
    run_job(fine_tune.pk)
    fine_tune.refresh_from_db()
    assert (fine_tune.state, fine_tune.attempt) == ("succeeded", 1)
    assert JobEvent.unscoped.filter(job=fine_tune).count() == events


def test_a_bad_dataset_fails_with_its_code_and_leaves_no_artifact(fine_tune: Job, upload_root: Path) -> None:
    before = set(Artifact.objects.values_list("digest", flat=True))
    bad = b'{"text": "good", "label": "good"}\n{"text": "no label"}\n'
    sha256 = hashlib.sha256(bad).hexdigest()
    (upload_root / sha256[:2]).mkdir(exist_ok=True)
    (upload_root / sha256[:2] / sha256).write_bytes(bad)
    params = fine_tune.params
    params["dataset"]["splits"]["train"] = sha256
    Job.unscoped.filter(pk=fine_tune.pk).update(params=params)
    run_job(fine_tune.pk)
    fine_tune.refresh_from_db()
    assert (fine_tune.state, fine_tune.error_code) == ("failed", ErrorCode.MALFORMED_ROW)
    assert "Row 2" in fine_tune.error_message
    assert "Traceback" in fine_tune.traceback
    assert set(Artifact.objects.values_list("digest", flat=True)) == before
    assert not (store().root / "hplm").exists()
    assert leftovers() == []
    version = Version.unscoped.get(pk=fine_tune.version.pk)
    assert (version.state, version.digest) == ("failed", "")
    assert [job.state for job in jobs_in_order(version)] == ["failed", "cancelled"]


def test_a_hub_id_with_only_pickled_weights_fails_and_leaves_only_its_reason(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = tmp_path / "hub" / "models--acme--pickled" / "snapshots" / ("0" * 40)
    shutil.copytree(world.checkpoint, snapshot)
    (snapshot / "model.safetensors").rename(snapshot / "pytorch_model.bin")
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text(snapshot.name)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    version = root_register(name="hubbed", source="acme/pickled", corpus=world.corpus, actor=world.staff)
    convert, build_plot = jobs_in_order(version)
    run_job(convert.pk)
    run_job(build_plot.pk)
    convert.refresh_from_db()
    assert (convert.state, convert.error_code) == ("failed", ErrorCode.PICKLED_CHECKPOINT)
    assert "pytorch_model.bin" in convert.error_message
    assert [job.state for job in jobs_in_order(version)] == ["failed", "cancelled"]
    version.refresh_from_db()
    assert (version.state, version.digest) == ("failed", "")
    assert not Artifact.objects.exists()
    assert not VersionArtifact.unscoped.exists()
    assert [path.name for path in store().root.iterdir()] == [".incoming"]
    assert leftovers() == []


def test_a_dataset_that_was_deleted_meanwhile_is_named(fine_tune: Job, upload_root: Path) -> None:
    test = fine_tune.params["dataset"]["splits"]["test"]
    (upload_root / test[:2] / test).unlink()
    run_job(fine_tune.pk)
    fine_tune.refresh_from_db()
    assert (fine_tune.state, fine_tune.error_code) == ("failed", ErrorCode.NOT_FOUND)
    assert "'moods'" in fine_tune.error_message


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_nothing_is_trained_on_a_file_that_was_changed(fine_tune: Job, upload_root: Path, split: str) -> None:
    sha256 = fine_tune.params["dataset"]["splits"][split]
    file = upload_root / sha256[:2] / sha256
    lines = file.read_bytes().splitlines(keepends=True)
    file.chmod(0o644)
    file.write_bytes(b"".join(reversed(lines)))  # rows as good as the others, and as many bytes
    run_job(fine_tune.pk)
    fine_tune.refresh_from_db()
    assert (fine_tune.state, fine_tune.error_code) == ("failed", ErrorCode.CORRUPT_ARTIFACT)
    assert f"the {split} split of the dataset 'moods' is damaged" in fine_tune.error_message


def test_a_crash_tells_the_tenant_little_and_the_administrator_where(fine_tune: Job) -> None:
    Job.unscoped.filter(pk=fine_tune.pk).update(params={**fine_tune.params, "settings": {"epoch": 1}})
    run_job(fine_tune.pk)
    fine_tune.refresh_from_db()
    assert (fine_tune.state, fine_tune.error_code) == ("failed", ErrorCode.JOB_CRASHED)
    assert "epoch" not in fine_tune.error_message
    assert "TypeError" in fine_tune.traceback
    assert "fine_tune.py" in fine_tune.traceback


def test_workspace_of_a_killed_attempt_is_removed_by_the_next(fine_tune: Job) -> None:
    abandoned = store().root / ".incoming" / f"job-{fine_tune.pk}-0badcafe"
    abandoned.mkdir(parents=True)
    (abandoned / "half").write_text("written")
    run_job(fine_tune.pk)
    assert leftovers() == []


def test_a_job_that_was_taken_away_stops_and_writes_nothing(fine_tune: Job) -> None:
    make_endless(fine_tune)
    worker = threading.Thread(target=deliver, args=[fine_tune], daemon=True)
    worker.start()
    wait_until(lambda: at_stage(fine_tune, "fine-tune"))
    Job.unscoped.filter(pk=fine_tune.pk).update(worker="other", stage="the other's", progress=0.5)
    worker.join(30)
    assert not worker.is_alive()
    fine_tune.refresh_from_db()
    assert (fine_tune.state, fine_tune.worker, fine_tune.error_code) == ("running", "other", "")
    assert (fine_tune.stage, fine_tune.progress) == ("the other's", 0.5)
    assert JobEvent.unscoped.filter(job=fine_tune).latest("pk").kind in {"stage", "metrics"}
    assert leftovers() == []


def run_jobs(version: Version) -> Version:
    """Train it and measure it."""
    for job in jobs_in_order(version):
        run_job(job.pk)
    version.refresh_from_db()
    assert version.state == "ready"
    return version


def updated(world: World, first: Version, **settings: Any) -> Version:
    return run_jobs(
        hplm_update(hplm=hplm_of(first), dataset=world.classes, actor=world.owner, settings=settings)
    )


def test_an_update_without_settings_trains_on_from_a_pet_of_its_own_shape(
    world: World, tmp_path: Path
) -> None:
    first = run_jobs(world.create_hplm(world.ready_root(tmp_path / "root")))
    second = updated(world, first)
    assert second.metrics["fine_tune"]["warm_start"] == {"pet": True, "head": True}
    assert "warnings" not in second.config
    third = updated(world, first, lora=4)
    assert third.metrics["fine_tune"]["warm_start"] == {"pet": False, "head": False}
    assert "not from version 2" in third.config["warnings"][0]
    fourth = updated(world, first, pooling="cls")
    assert fourth.metrics["fine_tune"]["warm_start"] == {"pet": True, "head": False}
    assert "The head is trained from scratch" in fourth.config["warnings"][0]
