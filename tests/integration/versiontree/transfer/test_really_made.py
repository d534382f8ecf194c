"""What training really writes can be moved: archives know all its files, imports accept all its reports."""

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from frontend.presenters.version_page import version_url
from tests.integration.versiontree.transfer.conftest import zipped
from tests.integration.versiontree.transfer.site import Models, Site, artifacts_of, branch_of, predictions
from tests.unit.tiny import tiny_checkpoint
from tests.unit.workers.training.world import NullReporter, corpus_file, dataset, repeating_texts
from versiontree.transfer.archive.layout import ALLOWED_FILES
from versiontree.transfer.services.version_import import version_import
from workers.jobs.outcome import to_json
from workers.training.conversion import ConvertSettings
from workers.training.convert import convert_root
from workers.training.evaluate import EvaluateSettings, evaluate
from workers.training.fine_tune import fine_tune
from workers.training.further_pretrain import FurtherPretrainSettings, further_pretrain
from workers.training.plots import PlotSettings, build_plot, merge_plots
from workers.training.search import FineTuneSettings

HEAD = {"lm_head.safetensors"}
FULL = {"full.safetensors"}
"""Only domains have them: a root's own are in the root."""
POOLER = {"pooler.safetensors"}
"""Only checkpoints that are complete have one; this one is a language model."""
SENTENCE = {"sentence.safetensors"}
"""Only folders of sentence-transformers have dense layers."""
EARLIER = {"int8.safetensors"}
"""Only earlier versions wrote these."""


@pytest.fixture(scope="module", params=[True, False], ids=["head of the checkpoint", "head of the domain"])
def models(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Models:
    return really_made(tmp_path_factory.mktemp("really-made"), lm_head=request.param)


@pytest.mark.django_db
def test_trained_branch_is_imported_with_the_same_digests_and_answers(
    site: Site, another_site: Callable[[], None], client: Client
) -> None:
    archive, said, held = zipped(site.hplm, branch=True), predictions(site.hplm), artifacts_of(site.hplm)
    made = [(step.digest, step.metrics) for step in branch_of(site.hplm)]
    another_site()
    version = version_import(archive=io.BytesIO(archive), tenant=site.globex.tenant, actor=None)
    assert [(step.digest, step.metrics) for step in branch_of(version)] == made
    assert artifacts_of(version) == held
    assert predictions(version) == said
    client.force_login(site.globex.owner)
    for step in branch_of(version):
        assert client.get(version_url(site.globex.tenant, step)).status_code == 200


def test_archives_allow_the_files_that_jobs_write(models: Models, tmp_path: Path) -> None:
    of_root, of_domain = files_of(models.root["root"]), files_of(models.domain["lower"])
    assert of_root | HEAD | POOLER | SENTENCE | EARLIER == ALLOWED_FILES["root"]
    assert of_domain | HEAD == ALLOWED_FILES["lower"]
    assert files_of(models.root["lower"]) == ALLOWED_FILES["lower"] - HEAD - FULL
    assert of_root >= HEAD or of_domain >= HEAD
    assert not of_root & of_domain & HEAD
    assert files_of(models.hplm["hplm"]) == ALLOWED_FILES["hplm"]
    for plot in (models.root["plot"], models.domain["plot"], compacted_table(models, tmp_path)):
        assert files_of(plot) == ALLOWED_FILES["plot"]


def files_of(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


CONVERT = ConvertSettings(
    precision="float32", ridge_tokens=1000, distil_tokens=500, held_out_tokens=600, held_out_share=0.1,
    batch_tokens=256, mixer_tokens=500,
)  # fmt: skip
PRETRAIN = FurtherPretrainSettings(
    precision="float32", head_tokens=1000, head_epochs=1, tokens=1000, held_out_tokens=600,
    held_out_share=0.2, batch_tokens=256,
)  # fmt: skip
TABLE = PlotSettings(precision="float32")
TUNE = FineTuneSettings(precision="float32", epochs=1, min_steps=0)


def really_made(folder: Path, *, lm_head: bool) -> Models:
    """A root, a domain below it and a model on that; the checkpoint has a language model head or not."""
    checkpoint = tiny_checkpoint(folder / "checkpoint", lm_head=lm_head)
    prose = corpus_file(folder / "prose.txt")
    leaflets = corpus_file(folder / "leaflets.txt", repeating_texts(300))
    root = {role: folder / role for role in ("root", "lower", "plot")}
    domain = {role: folder / f"domain-{role}" for role in ("lower", "plot")}
    hplm = {"hplm": folder / "hplm"}
    converted = convert_root(
        checkpoint=str(checkpoint), corpus=prose, out_root=root["root"], out_lower=root["lower"],
        settings=CONVERT, reporter=NullReporter(),
    )  # fmt: skip
    pretrained = further_pretrain(
        root=root["root"], lower=root["lower"], corpus=leaflets, out=domain["lower"], settings=PRETRAIN,
        reporter=NullReporter(),
    )  # fmt: skip
    return Models(
        root, domain, hplm,
        converted=_jobs(convert=converted, build_plot=_table(root["root"], root, prose, all_unigrams=True)),
        pretrained=_jobs(
            further_pretrain=pretrained, build_plot=_table(root["root"], domain, leaflets, all_unigrams=False)
        ),
        measured=_tuned(folder, root, domain, hplm["hplm"]),
    )  # fmt: skip


def compacted_table(models: Models, folder: Path) -> Path:
    """What compacting the domain writes."""
    plots = [models.domain["plot"], models.root["plot"]]
    merge_plots(plots=plots, out=folder / "compacted", reporter=NullReporter())
    return folder / "compacted"


def _table(root: Path, folders: Mapping[str, Path], corpus: Path, *, all_unigrams: bool) -> dict[str, Any]:
    return build_plot(
        root=root, lower=folders["lower"], corpus=corpus, out=folders["plot"], alpha=50, settings=TABLE,
        reporter=NullReporter(), all_unigrams=all_unigrams,
    )  # fmt: skip


def _tuned(
    folder: Path, root: Mapping[str, Path], domain: Mapping[str, Path], out: Path
) -> dict[str, dict[str, Any]]:
    files, plots = dataset(folder / "labelled", "classification", train=60), [domain["plot"], root["plot"]]
    tuned = fine_tune(
        root=root["root"], plots=plots, dataset=files, task="classification", out=out, settings=TUNE,
        reporter=NullReporter(), lower=domain["lower"],
    )  # fmt: skip
    measured = evaluate(
        root=root["root"], plots=plots, hplm=out, dataset_file=files.test, task="classification",
        settings=EvaluateSettings(precision="float32"), reporter=NullReporter(), lower=domain["lower"],
        train_file=files.train,
    )  # fmt: skip
    return _jobs(fine_tune=tuned, evaluate=measured)


def _jobs(**reports: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """By kind of job, as its row keeps it."""
    return {kind: to_json(report) for kind, report in reports.items()}
