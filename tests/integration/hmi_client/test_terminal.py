"""What a person at a terminal sees of work that takes long. The test is the worker, and says how far."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from tenants.datasets.models import Dataset
from tests.integration.hmi_client.conftest import Product
from tests.integration.hmi_client.terminal import Terminal, hmi_in_terminal
from tests.integration.jobs.world import Folders, mood_rows, store
from tests.integration.versiontree.tree_factory import jobs_in_order
from tests.unit.tenants.files import jsonl
from tests.unit.tiny import tiny_hplm, tiny_root
from versiontree.jobs.models import Job
from versiontree.jobs.services.lifecycle import job_claim, job_event, job_heartbeat, job_succeed
from versiontree.tree.models import Version

Run = Callable[..., AbstractContextManager[Terminal]]


@pytest.fixture
def hmi(site: Product, tmp_path: Path) -> Run:
    """Runs the command in a terminal, with the tenant's key."""
    folder = tmp_path / "config"
    return partial(
        hmi_in_terminal, env={"HMI_URL": site.url, "HMI_API_KEY": site.key, "XDG_CONFIG_HOME": str(folder)}
    )


def test_a_pushed_file_has_a_bar_with_its_size_and_then_a_sentence(hmi: Run, tmp_path: Path) -> None:
    file = tmp_path / "again.jsonl"
    file.write_text(jsonl(mood_rows()))
    size = f"{file.stat().st_size / 1000:.1f}"
    with hmi("data", "push", file, "--task", "classification") as terminal:
        terminal.wait_for("again.jsonl", f"{size}/{size} kB")
        terminal.wait_for("Dataset", "(again) is stored.")
        assert terminal.end() == 0
    assert Dataset.unscoped.filter(name="again").exists()


@pytest.mark.slow
def test_a_training_is_drawn_job_by_job_from_waiting_to_its_end(
    site: Product, hmi: Run, tmp_path: Path
) -> None:
    tiny_hplm(tiny_root(tmp_path / "same"), "classification").save(tmp_path / "model")
    with hmi("train", "mood", "--data", "moods", "--parent", "tiny", "--wait") as terminal:
        terminal.wait_for("fine_tune", "0%", "queued")
        terminal.wait_for("evaluate", "0%", "waiting")
        fine_tune, evaluate = jobs_in_order(Version.unscoped.get(hplm__name="mood"))
        begin(fine_tune, at=0.42, stage="epoch 2 of 3")
        terminal.wait_for("fine_tune", " 42%", "epoch 2 of 3")
        with hmi("jobs", "tail", fine_tune.pk) as tail:
            tail.wait_for("fine_tune", " 42%", "epoch 2 of 3")
            job_event(job_id=fine_tune.pk, kind="note", message="The rate was halved.")
            tail.wait_for("note", "The rate was halved.")
            end(fine_tune, {"hplm": tmp_path / "model"})
            tail.wait_for("fine_tune", "100%", "succeeded")
            assert tail.end() == 0
        terminal.wait_for("fine_tune", "100%", "succeeded")
        begin(evaluate, at=0.07, stage="reading")
        terminal.wait_for("evaluate", "  7%", "reading")
        end(evaluate, {})
        terminal.wait_for("evaluate", "100%", "succeeded")
        terminal.wait_for("mood:1 is ready. Next: hmi infer mood")
        assert terminal.end() == 0


def begin(job: Job, *, at: float, stage: str) -> None:
    """A worker takes the job, and gets so far with it."""
    assert job_claim(job_id=job.pk, worker="test", lease_s=300) is not None
    job_heartbeat(job_id=job.pk, worker="test", lease_s=300, progress=at, stage=stage)


def end(job: Job, folders: Folders) -> None:
    """It ends well with these artifacts."""
    artifacts = [(role, store().ingest(role, folder)) for role, folder in folders.items()]
    job_succeed(job_id=job.pk, worker="test", metrics={}, artifacts=artifacts)
