"""Jobs below a decoder root, on a tiny decoder."""

import io
from pathlib import Path

import pytest

from inference.decoder.generative_hplm import GenerativeHplm
from inference.decoder.root import DecoderRoot
from tenants.datasets.models import Dataset
from tenants.datasets.services.datasets import dataset_upload
from tests.integration.jobs.world import World, store
from tests.integration.tenants.content import stream
from tests.integration.versiontree.transfer.conftest import zipped
from tests.integration.versiontree.tree_factory import jobs_in_order
from tests.unit.tenants.files import jsonl
from tests.unit.tiny_decoder import tiny_decoder_folder
from versiontree.jobs.models import Job
from versiontree.transfer.archive.layout import ALLOWED_DECODER_FILES
from versiontree.transfer.services.version_import import version_import
from versiontree.tree.models import RootKind, Version
from versiontree.tree.selectors.evaluations import answers_of, evaluation_of, row_source, rows_read
from versiontree.tree.services.hplms import hplm_create, hplm_update
from versiontree.tree.services.roots import root_register
from workers.runner import run_job

SMALL = {"epochs": 1, "test_prompts": 2, "new_tokens": 3}


@pytest.fixture
def decoder(world: World, tmp_path: Path) -> Version:
    """A decoder whose job has run."""
    source = tiny_decoder_folder(tmp_path / "decoder")
    version = root_register(
        name="smol", kind=RootKind.DECODER, source=str(source), lower_layers=1, actor=world.staff
    )
    run_job(jobs_in_order(version)[0].pk)
    version.refresh_from_db()
    return version


def test_a_decoder_is_copied_to_a_root_that_can_be_loaded(decoder: Version) -> None:
    (convert,) = jobs_in_order(decoder)
    assert (convert.state, convert.progress, decoder.state) == ("succeeded", 1.0, "ready")
    found = convert.metrics
    assert (found["family"], found["layers"], found["lower_layers"]) == ("llama", 3, 1)
    store().verify("root", decoder.digest)
    root = DecoderRoot.load(store().path("root", decoder.digest))
    assert (root.config.name, root.config.lower_layers) == ("smol", 1)
    assert root.chat_template


@pytest.mark.parametrize("task", ["generation", "chat"])
def test_a_generative_model_is_trained_evaluated_and_trained_further(
    task: str, decoder: Version, world: World
) -> None:
    data = upload(world, task)
    version = hplm_create(
        tenant=world.tenant,
        name="writer",
        parent=decoder,
        dataset=data,
        actor=world.owner,
        settings=SMALL | {"projections": "query_value", "lora": 4},
    )
    fine_tune, evaluate = run_all(version)
    assert (fine_tune.state, evaluate.state) == ("succeeded", "succeeded"), fine_tune.traceback
    version.refresh_from_db()
    assert version.state == "ready"
    store().verify("hplm", version.digest)
    root = DecoderRoot.load(store().path("root", decoder.digest))
    hplm = GenerativeHplm.load(store().path("hplm", version.digest), root.config.architecture)
    assert (hplm.task, hplm.lora.lowest_layer) == (task, 1)
    assert {projection for _, projection in hplm.lora.tensors} == {"query", "value"}
    assert version.metrics["evaluate"]["metric"] == "rouge_l"
    assert version.metrics["evaluate"]["value"] == version.metrics["fine_tune"]["test"]["value"]
    check_what_users_see(world, version, task)
    for kind, digest in (("root", decoder.digest), ("hplm", version.digest)):
        made = {path.name for path in store().path(kind, digest).iterdir()}
        assert made == ALLOWED_DECODER_FILES[kind]
    assert version.hplm is not None
    second = hplm_update(hplm=version.hplm, dataset=data, actor=world.owner)
    further, compared = run_all(second)
    assert further.metrics["warm_start"] is True
    against = compared.metrics["against"]
    assert against["version"] == 1
    for split in ("dev", "test"):
        assert against[split]["rows"] > 0
        assert against[split]["metric"] == "loss"
        assert 0 < against[split]["p_value"] <= 1
    moved = version_import(archive=io.BytesIO(zipped(version)), tenant=world.tenant, actor=None, name="moved")
    assert (moved.digest, moved.metrics) == (version.digest, version.metrics)


def check_what_users_see(world: World, version: Version, task: str) -> None:
    """The stored answers, the samples, and the curve of the dev loss of a version that was just made."""
    evaluation = evaluation_of(world.tenant, version)
    assert evaluation is not None
    answers = answers_of(evaluation)
    assert (answers.task, len(answers.answered)) == (task, SMALL["test_prompts"])
    rows = list(rows_read(row_source(world.tenant, evaluation.test_sha256), answers.answered))
    assert all(row and "yes" in str(row) for row in rows)
    tuned = version.metrics["fine_tune"]
    (fine_tune, _) = jobs_in_order(version)
    told = fine_tune.events.filter(kind="metrics", data__stage="fine-tune").order_by("pk").first()
    assert told is not None
    assert told.data["dev_loss"] == pytest.approx(tuned["epochs"][0]["dev_loss"], abs=1e-4)


def run_all(version: Version) -> list[Job]:
    """The jobs of a version, each run in its turn."""
    for job in jobs_in_order(version):
        run_job(job.pk)
    return jobs_in_order(version)


def upload(world: World, task: str) -> Dataset:
    """Rows of the task."""
    rows: list[dict[str, object]] = [{"prompt": f"{number}?", "completion": "yes"} for number in range(60)]
    if task == "chat":
        rows = [
            {
                "messages": [
                    {"role": "user", "content": row["prompt"]},
                    {"role": "assistant", "content": row["completion"]},
                ]
            }
            for row in rows
        ]
    files = {"train": ("rows.jsonl", stream(jsonl(rows)))}
    return dataset_upload(tenant=world.tenant, name="rows", task=task, files=files, actor=world.owner)


def test_a_root_without_a_chat_template_learns_no_conversations(world: World, tmp_path: Path) -> None:
    source = tiny_decoder_folder(tmp_path / "decoder")
    (source / "chat_template.jinja").unlink()
    root = root_register(name="base", kind=RootKind.DECODER, source=str(source), actor=world.staff)
    run_all(root)
    root.refresh_from_db()
    version = hplm_create(
        tenant=world.tenant,
        name="writer",
        parent=root,
        dataset=upload(world, "chat"),
        actor=world.owner,
        settings=SMALL,
    )
    fine_tune, evaluate = run_all(version)
    assert (fine_tune.error_code, evaluate.state) == ("unsupported_checkpoint", "cancelled")
    assert "no chat template" in fine_tune.error_message


def test_a_cut_above_all_layers_fails_the_job_with_the_reason(world: World, tmp_path: Path) -> None:
    source = str(tiny_decoder_folder(tmp_path / "decoder"))
    version = root_register(
        name="deep", kind=RootKind.DECODER, source=source, lower_layers=3, actor=world.staff
    )
    (convert,) = jobs_in_order(version)
    run_job(convert.pk)
    convert.refresh_from_db()
    assert (convert.state, convert.error_code) == ("failed", "unsupported_checkpoint")
    assert "at least one must be above the cut" in convert.error_message
