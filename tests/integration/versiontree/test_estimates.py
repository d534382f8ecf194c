"""What a model would take: time from jobs that were done, storage from shapes, the wait from the queue."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from django.conf import settings
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from rest_framework.test import APIClient

from inference.decoder.architecture import DecoderArchitecture
from inference.decoder.lora_layout import COLUMN_MULTIPLE as LAYOUT_MULTIPLE
from inference.hplm.heads import Head
from inference.hplm.hplm import Hplm
from inference.hplm.pets import PetSpec, PetWeights, UpperShape
from inference.text.tasks import FIXED_LABELS
from tenants.audit.models import AuditEvent
from tenants.base.scope import platform_scope
from tenants.datasets.models import Dataset, DatasetSplit
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.callers import signed_in
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.artifact_store import ArtifactStore
from versiontree.jobs.models import Job, JobKind, JobState
from versiontree.tree.models import Artifact, RootKind, Version, VersionArtifact
from versiontree.tree.selectors.estimates import Estimate, domain_estimate, hplm_estimate
from versiontree.tree.selectors.job_work import job_work
from versiontree.tree.selectors.lineage import build_inputs
from versiontree.tree.selectors.past_jobs import DataSize, range_from_past
from versiontree.tree.training_settings import settings_with_defaults
from versiontree.tree.weight_sizes import (
    COLUMN_MULTIPLE,
    DecoderLayers,
    UpperLayers,
    lora_bytes,
    table_row_bytes,
    weights_bytes,
)
from workers.training.generative.lora_parameters import LoraParameters, LoraSpec

pytestmark = pytest.mark.usefixtures("in_acme_scope")

HIDDEN, INNER, LAYERS = 16, 40, 3


def estimate(parent: Version, home: TenantFixture, **chosen: Any) -> Estimate:
    return hplm_estimate(parent=parent, dataset=home.dataset, settings=chosen)


def done(parent: Version, home: TenantFixture, name: str, seconds: float, evaluating: float = 2.0) -> None:
    """A model whose jobs took so long."""
    now = timezone.now()
    version = tree_factory.new_hplm(parent, name, home)
    for job, took in zip(tree_factory.jobs_in_order(version), (seconds, evaluating), strict=True):
        Job.unscoped.filter(pk=job.pk).update(
            state=JobState.SUCCEEDED, attempt=1, started_at=now - timedelta(seconds=took), finished_at=now
        )


def test_without_past_jobs_a_model_of_cost_speaks_and_doubts_itself(
    root: Version, acme: TenantFixture
) -> None:
    guess = estimate(root, acme)
    assert guess.past_jobs == 0
    assert guess.seconds.high >= 8 * guess.seconds.low > 0
    assert estimate(root, acme, epochs=100).seconds.likely > guess.seconds.likely
    assert (guess.queue.position, guess.queue.wait_s) == (1, 0)


@platform_scope()
def test_past_jobs_on_the_same_root_say_how_long_it_takes(
    root: Version, acme: TenantFixture, globex: TenantFixture
) -> None:
    """Whoever's they were; what is four times the work takes four times as long, within doubt."""
    for number, home in enumerate((acme, globex, acme, globex)):
        done(root, home, f"past-{number}", 100 + number)
    told = estimate(root, acme)
    assert told.past_jobs == 4
    assert told.seconds.low < 103.5 < told.seconds.high < 200
    more = estimate(root, acme, trials=3, epochs=30)
    assert more.seconds.likely > 2 * told.seconds.likely


@platform_scope()
def test_a_domain_is_estimated_by_its_text_its_coverage_and_what_past_ones_took(
    root: Version, acme: TenantFixture, globex: TenantFixture
) -> None:
    shape = {"lower": 3, "n": 3, "architecture": {"layers": 6, "hidden": HIDDEN, "inner": INNER}}

    def guess(alpha: float = 50.0, vectors: str = "float16", **settings: Any) -> Estimate:
        return domain_estimate(
            parent=root, corpus=acme.corpus, alpha=alpha, settings=settings, vectors=vectors
        )

    assert guess().storage_bytes is None
    folder = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT)).path("root", root.digest)
    (folder / "root.json").write_text(json.dumps(shape))
    rough = guess()
    lower = VersionArtifact.unscoped.get(version=root, role="lower").artifact.size
    assert (rough.past_jobs, rough.storage_is_rough) == (0, True)
    assert rough.storage_bytes == lower + int(
        acme.corpus.size_bytes * 0.51 / 5 * table_row_bytes(shape, "float16")
    )
    for number, home in enumerate((acme, globex, acme)):
        learned(
            tree_factory.ready_domain(root, f"past-{number}", home=home), seconds=(300, 100), table=1_000_000
        )
    told = guess()
    assert (told.past_jobs, told.storage_is_rough) == (3, False)
    assert told.storage_bytes == lower + 1_000_000
    assert told.seconds.low < 400 < told.seconds.high
    assert told.seconds.likely == pytest.approx(400)
    assert guess(alpha=101).seconds.likely == pytest.approx(300 + 200)
    assert guess(vectors="int8").storage_bytes == pytest.approx(lower + 1_000_000 * 88 / 136, rel=0.01)
    assert guess(minutes=60).seconds.likely == pytest.approx(3600 + 100)
    assert guess(tokens=10_000, head_tokens=10_000).seconds.likely == pytest.approx(300 / 6 + 100)


@platform_scope()
@pytest.mark.parametrize(("file", "lower"), [("full.safetensors", 80), ("lm_head.safetensors", 80 + 30)])
def test_layers_with_full_context_count_if_the_parent_has_its_own_and_if_it_reads_the_root_s(
    root: Version, acme: TenantFixture, monkeypatch: pytest.MonkeyPatch, file: str, lower: int
) -> None:
    shape = {"lower": 3, "n": 3, "architecture": {"layers": 6, "hidden": HIDDEN, "inner": INNER}}
    folder = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT)).path("root", root.digest)
    (folder / "root.json").write_text(json.dumps(shape))
    inputs = replace(
        build_inputs(root),
        root=Artifact(size=90, files={"checkpoint_lower.safetensors": {"sha256": "", "size": 30}}),
        lower=Artifact(size=80, files={file: {"sha256": "", "size": 20}}),
    )
    monkeypatch.setattr("versiontree.tree.selectors.estimates.build_inputs", lambda _: inputs)
    told = domain_estimate(parent=root, corpus=acme.corpus, alpha=50.0, settings={}, vectors="float16")
    table = int(acme.corpus.size_bytes * 0.51 / 5 * table_row_bytes(shape, "float16"))
    assert told.storage_bytes == lower + table


def learned(version: Version, *, seconds: tuple[float, float], table: int) -> None:
    """As if the jobs of a domain had taken so long, and its table had so many bytes."""
    now = timezone.now()
    for job, took in zip(tree_factory.jobs_in_order(version), seconds, strict=True):
        Job.unscoped.filter(pk=job.pk).update(
            attempt=1,
            started_at=now - timedelta(seconds=took),
            finished_at=now,
            metrics={"bytes": table} if job.kind == JobKind.BUILD_PLOT else {},
        )


def test_what_waits_before_it_counts(root: Version, acme: TenantFixture) -> None:
    for number in range(3):
        done(root, acme, f"past-{number}", 60)
    for number in range(2):
        tree_factory.new_hplm(root, f"queued-{number}", acme)
    queue = estimate(root, acme).queue
    assert (queue.position, queue.wait_s) == (3, 120)


@given(
    st.lists(st.tuples(st.floats(1, 1e9), st.floats(0.1, 1e5)), max_size=30),
    st.floats(1, 1e9),
)
def test_a_span_lies_around_its_middle_whatever_was_measured(
    past: list[tuple[float, float]], work: float
) -> None:
    span = range_from_past(work, past)
    assert (span is None) == (len(past) < 3)
    if span is not None:
        assert 0 < span.low <= span.likely <= span.high


@pytest.mark.parametrize(
    ("task", "labels", "outputs"),
    [
        ("classification", ["a", "b", "c"], ["a", "b", "c"]),
        ("multilabel", ["a", "b"], ["a", "b"]),
        ("regression", ["value"], [*FIXED_LABELS["regression"]]),
        ("question_answering", ["start", "end"], [*FIXED_LABELS["question_answering"]]),
        ("tagging", ["x", "y"], ["B-x", "B-y", "I-x", "I-y", "O"]),
    ],
)
@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"lora": 0, "adapter": 8, "biases": False},
        {"output_adapter": 5, "norms": False, "lora": 3},
        {"pooling": "cls"},
    ],
)
def test_storage_is_exactly_that_of_what_training_makes(
    task: Any, labels: list[str], outputs: list[str], chosen: dict[str, Any]
) -> None:
    knobs = settings_with_defaults(JobKind.FINE_TUNE, chosen)
    spec = PetSpec(**{name: knobs[name] for name in ("adapter", "output_adapter", "lora", "biases", "norms")})
    per_token = task in ("tagging", "question_answering")
    head = Head.initial(len(outputs), HIDDEN, pooling="token" if per_token else knobs["pooling"])
    made = Hplm(task, tuple(outputs), PetWeights.initial(spec, UpperShape(LAYERS, HIDDEN, INNER)), head)
    dataset = Dataset(
        task=task, labels=labels, report={"splits": {"train": {"labels": dict.fromkeys(labels, 9)}}}
    )
    told = weights_bytes(UpperLayers(LAYERS, HIDDEN, INNER), dataset, chosen)
    assert told == made.to("cpu", torch.float16).bytes


def test_storage_is_told_where_the_root_s_own_file_is_there(root: Version, acme: TenantFixture) -> None:
    assert estimate(root, acme).storage_bytes is None
    shape = {"lower": 3, "architecture": {"layers": 6, "hidden": HIDDEN, "inner": INNER}}
    folder = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT)).path("root", root.digest)
    (folder / "root.json").write_text(json.dumps(shape))
    told = estimate(root, acme).storage_bytes
    assert told == weights_bytes(UpperLayers(3, HIDDEN, INNER), acme.dataset, {})


def decoder_config(**changes: Any) -> dict[str, Any]:
    """The content of a small decoder's `decoder.json`, the part that estimates read."""
    architecture = DecoderArchitecture(
        **{
            "family": "llama",
            "vocab": 100,
            "hidden": 32,
            "inner": 48,
            "layers": 5,
            "heads": 4,
            "kv_heads": 2,
            "head_size": 12,
            "positions": 64,
            "activation": "silu",
            "eps": 1e-5,
            "norm": "rms",
            "gated": True,
            "tied": True,
            **changes,
        }
    )
    return {"architecture": architecture.to_json(), "lower_layers": 2, "max_tokens": 64}


@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"lora": 5},
        {"lora": 3, "projections": "query_value"},
        {"lora": 0, "output_adapter": 5},
        {"adapter": 7, "output_adapter": 8},
    ],
)
def test_storage_of_a_decoder_s_pet_is_exactly_that_of_what_training_makes(
    gated: bool, chosen: dict[str, Any]
) -> None:
    config = decoder_config(gated=gated)
    architecture = DecoderArchitecture.from_json(config["architecture"])
    projections = ("query", "value") if "projections" in chosen else None
    adapters = {name: chosen[name] for name in ("adapter", "output_adapter") if name in chosen}
    spec = LoraSpec(chosen.get("lora", 16), 32.0, range(2, 5), projections, **adapters)
    made = LoraParameters.initial(architecture, spec, torch.Generator()).trained(architecture)
    assert lora_bytes(DecoderLayers.of(config), chosen) == made.bytes
    assert COLUMN_MULTIPLE == LAYOUT_MULTIPLE


@pytest.fixture
def decoder(acme: TenantFixture, tmp_path: Path) -> Version:
    version = tree_factory.ready_decoder(tmp_path)
    folder = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT)).path("root", version.digest)
    (folder / "root.json").unlink()
    (folder / "decoder.json").write_text(json.dumps(decoder_config()))
    return version


@pytest.fixture
def texts(acme: TenantFixture) -> Dataset:
    return tree_factory.dataset(acme.tenant, "texts", task="generation")


def test_a_generative_model_is_estimated_with_the_settings_and_the_layers_of_decoders(
    decoder: Version, texts: Dataset
) -> None:
    def guess(**chosen: Any) -> Estimate:
        return hplm_estimate(parent=decoder, dataset=texts, settings=chosen)

    told, layers = guess(), DecoderLayers.of(decoder_config())
    assert layers.layers == 3, "those above the cut"
    assert told.storage_bytes == lora_bytes(layers, {})
    assert guess(lora=32).storage_bytes == 2 * lora_bytes(layers, {})
    assert guess(epochs=50).seconds.likely > told.seconds.likely > guess(epochs=1).seconds.likely
    assert guess(new_tokens=4096).seconds.likely > told.seconds.likely > guess(test_prompts=1).seconds.likely


def test_long_rows_of_prompts_count_as_far_as_they_are_read() -> None:
    sizes = dict.fromkeys(("train", "dev", "test"), DataSize(rows=10, bytes=100_000))
    cut, read = (job_work(JobKind.FINE_TUNE, RootKind.DECODER, sizes, {"max_tokens": n}) for n in (20, 4000))
    assert 0 < cut < read


@platform_scope()
def test_past_generative_models_say_how_long_answering_as_many_prompts_takes(
    decoder: Version, texts: Dataset, acme: TenantFixture
) -> None:
    home = replace(acme, dataset=texts)
    for number in range(3):
        done(decoder, home, f"past-{number}", 1, evaluating=100)
    told = hplm_estimate(parent=decoder, dataset=texts, settings={})
    assert told.past_jobs == 3
    assert told.seconds.likely == pytest.approx(101)
    longer = hplm_estimate(parent=decoder, dataset=texts, settings={"new_tokens": 1280})
    assert longer.seconds.likely > 500


def test_the_api_estimates_and_writes_nothing(root: Version, acme: TenantFixture) -> None:
    caller: APIClient = signed_in(acme.owner)
    body = {"name": "spam", "parent": root.pk, "dataset": acme.dataset.pk, "settings": {"epochs": 2}}
    counted = (Version.unscoped.count(), Job.unscoped.count(), AuditEvent.unscoped.count())
    for _ in range(2):
        answer = caller.post("/api/v1/tenants/acme/estimate", body, format="json")
        assert answer.status_code == 200, answer.json()
    told = answer.json()
    assert told["seconds"]["low"] <= told["seconds"]["likely"] <= told["seconds"]["high"]
    assert (told["past_jobs"], told["queue"], told["warnings"]) == (0, {"position": 1, "wait_s": 0.0}, [])
    assert counted == (Version.unscoped.count(), Job.unscoped.count(), AuditEvent.unscoped.count())


@pytest.mark.parametrize(
    ("wrong", "param"),
    [({"name": "No"}, "name"), ({"parent": 0}, "parent"), ({"settings": {"epochs": 0}}, "settings.epochs")],
)
def test_the_api_refuses_what_creating_would_refuse(
    root: Version, acme: TenantFixture, wrong: dict[str, Any], param: str
) -> None:
    body = {"name": "spam", "parent": root.pk, "dataset": acme.dataset.pk, **wrong}
    answers = [
        signed_in(acme.owner).post(f"/api/v1/tenants/acme/{at}", body, format="json")
        for at in ("estimate", "models")
    ]
    assert answers[0].json() == answers[1].json()
    assert answers[0].json()["error"]["param"] == param


def test_the_api_estimates_domains_as_it_would_make_them_and_makes_none(
    root: Version, domain: Version, acme: TenantFixture, staff: APIClient
) -> None:
    own = tree_factory.ready_domain(root, "surgery", home=acme)
    text = tree_factory.corpus(None, "of all")
    counted = (Version.unscoped.count(), Job.unscoped.count(), AuditEvent.unscoped.count())
    caller = signed_in(acme.developer)
    for client, place, corpus, grown in (
        (caller, "tenants/acme", acme.corpus, own),
        (staff, "platform", text, domain),
    ):
        more = {"corpus": corpus.pk, "alpha": 20.0, "settings": {"minutes": 30}}
        new = {"name": "heart", "parent": root.pk, **more}
        for estimate_at, at, body in (
            ("estimate/domain", "domains", new),
            (f"domains/{grown.domain_id}/estimate", f"domains/{grown.domain_id}/versions", more),
        ):
            address = f"/api/v1/{place}/{estimate_at}"
            answer = client.post(address, body, format="json")
            assert answer.status_code == 200, answer.json()
            told = answer.json()
            assert told["seconds"]["low"] >= 30 * 60, "as long as it is told"
            assert told["seconds"]["low"] < told["seconds"]["high"]
            assert told["storage_bytes"] is None, "the root of this tree has no file of its own"
            assert (told["storage_is_rough"], told["queue"]["position"]) == (False, 1)
            for wrong, param in (
                ({"alpha": 101}, "alpha"),
                ({"corpus": 0}, "corpus"),
                ({"vectors": "x"}, "settings.vectors"),
            ):
                asked = [
                    client.post(to, body | wrong, format="json") for to in (address, f"/api/v1/{place}/{at}")
                ]
                assert asked[0].json() == asked[1].json()
                assert asked[0].json()["error"]["param"] == param
    assert counted == (Version.unscoped.count(), Job.unscoped.count(), AuditEvent.unscoped.count())
    foreign = caller.post(f"/api/v1/tenants/acme/domains/{domain.domain_id}/estimate", more, format="json")
    assert foreign.status_code == 404, "the platform's domain is not theirs to teach"


DEMO_JOBS_TOOK = (156.0, 229.0)
"""Seconds until models of a hundred short texts were ready, on a machine with two cores."""


def test_the_cost_model_s_range_contains_what_small_models_took(
    root: Version, acme: TenantFixture, settings: Any
) -> None:
    settings.HMI_DEVICE = "cpu"
    shape = {"lower": 3, "architecture": {"layers": 6, "hidden": 384, "inner": 1536}}
    folder = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT)).path("root", root.digest)
    (folder / "root.json").write_text(json.dumps(shape))
    for split, rows in (("train", 120), ("dev", 15), ("test", 15)):
        of_split = DatasetSplit.unscoped.filter(dataset=acme.dataset, split=split)
        of_split.update(rows=rows, size_bytes=70 * rows)
    guess = estimate(root, acme)
    for took in DEMO_JOBS_TOOK:
        assert guess.seconds.low < took < guess.seconds.high, guess.seconds


@platform_scope()
def test_the_time_until_ready_includes_the_queue_where_that_is_known(
    root: Version, acme: TenantFixture
) -> None:
    for number in range(3):
        done(root, acme, f"past-{number}", 60)
    running, _ = (tree_factory.new_hplm(root, name, acme) for name in ("running", "queued"))
    job = tree_factory.jobs_in_order(running)[0]
    tree_factory.claim(job)
    Job.unscoped.filter(pk=job.pk).update(started_at=timezone.now() - timedelta(seconds=45))
    told = estimate(root, acme)
    assert told.queue.wait_s == pytest.approx(15 + 60, abs=10)
    assert told.queue.wait_s is not None
    assert told.until_ready.likely == pytest.approx(told.queue.wait_s + told.seconds.likely)
