"""Jobs of checkpoints that come from a hub, and of damaged ones: what they say, and what they leave."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub.constants
import huggingface_hub.file_download
import pytest
import torch
from pytest_django.fixtures import Settings
from safetensors.torch import load_file, save_file

from tenants.audit.models import AuditEvent
from tenants.base.errors import ErrorCode
from tests.hub_server import Hub, hub_of
from tests.integration.jobs.world import World, store
from tests.integration.versiontree.tree_factory import jobs_in_order
from tests.unit.tiny_decoder import tiny_decoder_folder
from versiontree.jobs.models import Job, JobEvent
from versiontree.jobs.services.control import job_retry
from versiontree.tree.models import Artifact, RootKind
from versiontree.tree.services.roots import root_register
from workers.hub_download import STAGE
from workers.runner import run_job

TOKEN = "hf_aVeryLongTokenOfThirtyFourLetters"
WEIGHTS = "model.safetensors"


@pytest.fixture
def hub(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub with a decoder. The workers have a token for it."""
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr(huggingface_hub.constants, "DOWNLOAD_CHUNK_SIZE", 1024)
    monkeypatch.setattr(huggingface_hub.file_download, "time", SimpleNamespace(sleep=lambda _: None))
    with hub_of(tiny_decoder_folder(tmp_path / "decoder")) as running:
        settings.HF_ENDPOINT = running.url
        yield running


def rows_of_the_job() -> str:
    """All that the database keeps of jobs and of who did what."""
    models = (Job.unscoped, JobEvent.unscoped, AuditEvent.unscoped)
    return str([list(rows.values()) for rows in models])


def left() -> list[Path]:
    """The files in the store."""
    return [path for path in store().root.rglob("*") if path.is_file()]


def test_a_root_from_a_hub_that_broke_is_ready_after_a_retry_and_its_token_is_nowhere(
    hub: Hub, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    size = len(hub.files[WEIGHTS])
    hub.breaks_at = (WEIGHTS, size // 2)
    version = root_register(name="smol", kind=RootKind.DECODER, source="acme/tiny", actor=world.staff)
    (convert,) = jobs_in_order(version)
    run_job(convert.pk)
    convert.refresh_from_db()
    assert (convert.state, convert.error_code) == ("failed", ErrorCode.CHECKPOINT_UNAVAILABLE)
    assert 0 < convert.progress < 0.5
    assert hub.tokens == {f"Bearer {TOKEN}"}
    assert TOKEN not in rows_of_the_job() + caplog.text
    hub.breaks_at, hub.is_down = None, False
    job_retry(job=convert, actor=world.staff)
    run_job(convert.pk)
    convert.refresh_from_db()
    version.refresh_from_db()
    assert (convert.state, version.state) == ("succeeded", "ready")
    assert hub.sent[WEIGHTS] < 1.1 * size
    assert JobEvent.unscoped.filter(job=convert, kind="stage", message=STAGE).count() == 2
    assert TOKEN not in rows_of_the_job() + caplog.text
    assert list((store().root / ".incoming").iterdir()) == []


def _poison(folder: Path) -> str:
    weights = load_file(folder / WEIGHTS)
    name = next(name for name in weights if name.endswith("layer.1.output.dense.weight"))
    weights[name][0, 0] = torch.nan
    save_file(weights, folder / WEIGHTS)
    return name


def _widen(folder: Path) -> str:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "intermediate_size": 1 << 28}))
    return "expand"


def _cut(folder: Path) -> str:
    (folder / f"{WEIGHTS}.index.json").write_text(json.dumps({"weight_map": {"pooler": WEIGHTS}}))
    return "pooler"


@pytest.mark.parametrize("damage", [_poison, _widen, _cut])
def test_a_damaged_checkpoint_is_named_and_leaves_nothing(
    world: World, damage: Callable[[Path], str]
) -> None:
    said = damage(world.checkpoint)
    convert, build_plot = jobs_in_order(world.register_root())
    run_job(convert.pk)
    for job in (convert, build_plot):
        job.refresh_from_db()
    assert (convert.state, convert.error_code) == ("failed", ErrorCode.UNSUPPORTED_CHECKPOINT)
    assert said in convert.error_message
    assert (build_plot.state, left(), Artifact.objects.count()) == ("cancelled", [], 0)
