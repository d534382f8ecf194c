"""An existing Hugging Face model is served as soon as it is registered, and later from a converted root."""

import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from django.test import Client
from django.urls import reverse
from pytest_django import Settings
from rest_framework.test import APIClient
from sentence_transformers import SentenceTransformer

from frontend.presenters.version_page import version_url
from inference.api.admission import close_gateway
from inference.cascade.dispatcher import Level
from inference.hplm.checkpoint import open_checkpoint
from inference.hplm.root import Root
from inference.queueing.messages import ModelRef, TokenSequence
from inference.queueing.replies import InferClient
from tenants.accounts.services.api_keys import api_key_create
from tenants.audit.models import AuditEvent
from tenants.base.errors import ErrorCode, HmiError
from tests.integration.jobs.world import SMALL_CONVERT, World, store
from tests.integration.versiontree.tree_factory import hplm_of, jobs_in_order
from tests.processes import InferenceWorker, wait_until
from tests.unit.inference.hplm.test_checkpoint_heads import KINDS, config_with, published_with_head
from tests.unit.sentence_files import add_sentence_files
from tests.unit.tiny import tiny_checkpoint, tiny_texts
from versiontree.jobs.models import Job
from versiontree.transfer.services.version_export import version_export
from versiontree.tree.models import Artifact, Hplm, Version
from versiontree.tree.selectors.lineage import build_inputs
from versiontree.tree.selectors.versions import default_of, parents_ready_for
from versiontree.tree.services.domains import domain_create
from versiontree.tree.services.evaluations import evaluation_request
from versiontree.tree.services.hplms import hplm_update, version_set_policy
from versiontree.tree.services.rebases import hplm_rebase
from versiontree.tree.services.roots import root_convert
from workers.runner import run_job

LABELS = tuple(KINDS["classification"][1]["id2label"].values())


@pytest.fixture
def staff(world: World) -> APIClient:
    client = APIClient()
    client.force_login(world.staff)
    return client


@pytest.fixture
def published_model(tmp_path: Path) -> Any:
    """A task model, as transformers saved it in `published_model.name_or_path`."""
    model = published_with_head(tmp_path / "sentiment", "bert", "classification")
    model.name_or_path = str(tmp_path / "sentiment")
    return model


@pytest.fixture
def start_engine(
    world: World, artifact_root: Path, redis_url: str
) -> Iterator[Callable[[], InferenceWorker]]:
    """Starts an inference worker that ends with the test."""
    started: list[InferenceWorker] = []

    def start() -> InferenceWorker:
        started.append(InferenceWorker(redis_url, artifact_root))
        return started[-1].wait_until_ready()

    yield start
    close_gateway()
    for worker in started:
        worker.terminate()


def register(staff: APIClient, source: object, **fields: object) -> Any:
    body = {
        "name": "sentiment",
        "source": str(source),
        "convert": False,
        "first_model": "acme/tone",
        **fields,
    }
    return staff.post("/api/v1/platform/roots", body, format="json")


def run_jobs(version: Version) -> Version:
    for job in jobs_in_order(version):
        run_job(job.pk)
    version.refresh_from_db()
    return version


def test_a_published_model_answers_as_in_transformers_and_moves_to_the_converted_root(
    world: World,
    staff: APIClient,
    published_model: Any,
    start_engine: Callable[[], InferenceWorker],
    redis_url: str,
) -> None:
    response = register(staff, published_model.name_or_path)
    assert response.status_code == 201, response.json()
    root = run_jobs(Version.unscoped.get(pk=response.json()["id"]))
    assert (root.state, [job.kind for job in jobs_in_order(root)]) == ("ready", ["convert"])
    model = Hplm.unscoped.get(name="tone")
    first = Version.unscoped.get(hplm=model)
    assert (model.tenant, model.task, first.state) == (world.tenant, "classification", "ready")
    assert (first.parent, default_of(first), first.config["labels"]) == (root, first, list(LABELS))
    assert AuditEvent.objects.for_tenant(world.tenant).filter(verb="version.from_checkpoint").count() == 1
    engine = start_engine()
    answers_as(published_model, first, world, engine)
    refuses_to_look_up(first, redis_url)

    converted = run_jobs(convert(staff, corpus=world.corpus.pk))
    assert converted.state == "ready", [job.error_message for job in jobs_in_order(converted)]
    second = hplm_rebase(hplm=model, actor=world.owner)
    assert (second.parent, second.state, second.digest) == (converted, "ready", first.digest)
    assert default_of(first) == second
    answers_as(published_model, second, world, engine)


def test_a_folder_of_sentence_transformers_gives_its_embeddings_at_once(
    world: World, staff: APIClient, tmp_path: Path, start_engine: Callable[[], InferenceWorker]
) -> None:
    folder = tiny_checkpoint(tmp_path / "sentences")
    add_sentence_files(folder)
    root = run_jobs(Version.unscoped.get(pk=register(staff, folder).json()["id"]))
    first = Version.unscoped.get(hplm__name="tone")
    assert (first.parent, first.state, hplm_of(first).task) == (root, "ready", "embedding")
    start_engine()
    _, key = api_key_create(tenant=world.tenant, name="vectors", scopes=["infer"], created_by=world.owner)
    client, texts = APIClient(HTTP_AUTHORIZATION=f"Bearer {key}"), tiny_texts(3)
    body = {"model": "acme/tone", "input": texts, "prompt_name": "passage"}
    answer = client.post("/v1/embeddings", body, format="json")
    assert answer.status_code == 200, answer.json()
    found = np.array([one["embedding"] for one in answer.json()["data"]])
    expected = SentenceTransformer(str(folder), device="cpu").encode(texts, prompt_name="passage")
    assert np.abs(found - expected).max() < 2e-3


def refuses_to_look_up(version: Version, redis_url: str) -> None:
    """The engine answers nobody from tables that are not there."""
    client = InferClient(redis_url, capacity=1)
    reply = client.ask(
        ModelRef("acme", "tone", version.number, version.digest),
        (TokenSequence(np.array([2, 9, 3], dtype="<i4").tobytes()),),
        root=version.domain_or_root().digest,
        seconds=30.0,
        call="from-tables",
        level=Level.TABLE,
    )
    client.close()
    assert not reply.ok
    assert "no lookup tables" in str(reply.error)


def convert(staff: APIClient, **body: object) -> Version:
    """The next version of the root, with settings for a tiny one."""
    address = "/api/v1/platform/roots/sentiment/convert"
    response = staff.post(address, body, format="json")
    assert response.status_code == 201, response.json()
    version = Version.unscoped.get(pk=response.json()["id"])
    job = jobs_in_order(version)[0]
    Job.unscoped.filter(pk=job.pk).update(params=job.params | {"settings": SMALL_CONVERT})
    return version


def answers_as(theirs: Any, version: Version, world: World, engine: InferenceWorker) -> None:
    """The version answers with transformers' scores, computed in full whatever the policy."""
    number, digest = version.number, version.domain_or_root().digest
    wait_until(lambda: (status := engine.status()) and digest in status.root_digests, engine)
    _, key = api_key_create(tenant=world.tenant, name=f"v{number}", scopes=["infer"], created_by=world.owner)
    client = APIClient(HTTP_AUTHORIZATION=f"Bearer {key}")
    texts = tiny_texts(3)
    for quality in ("balanced", "exact") if number > 1 else ("fast", "balanced", "exact"):
        body = {"model": f"acme/tone:{number}", "inputs": texts, "quality": quality}
        answer = client.post("/api/v1/infer", body, format="json")
        assert answer.status_code == 200, answer.json()
        for text, result in zip(texts, answer.json()["results"], strict=True):
            assert result["level"] == "full"
            expected = expected_scores(theirs, text)
            assert result["label"] == max(expected, key=expected.__getitem__)
            assert result["scores"] == pytest.approx(expected, abs=2e-3)


def expected_scores(model: Any, text: str) -> Mapping[str, float]:
    """What transformers answers."""
    tokenizer = Root.from_checkpoint(open_checkpoint(model.name_or_path)).tokenizer
    with torch.no_grad():
        logits = model(input_ids=torch.from_numpy(tokenizer.encode(text).ids)[None]).logits[0]
    return dict(zip(LABELS, torch.softmax(logits, 0).tolist(), strict=True))


@pytest.fixture
def served(staff: APIClient, published_model: Any) -> Version:
    """The first model of a root that is served as it is."""
    made = register(staff, published_model.name_or_path)
    run_jobs(Version.unscoped.get(pk=made.json()["id"]))
    return Version.unscoped.get(hplm__name="tone")


def test_a_root_that_is_served_as_it_is_has_no_tables_to_train_or_answer_with(
    world: World, served: Version, settings: Settings
) -> None:
    settings.HMI_CORPUS_MIN_WORDS = 0
    root = served.parent
    assert root is not None
    assert root not in parents_ready_for(world.tenant)
    refused: list[Callable[[], object]] = [
        lambda: world.create_hplm(root),
        lambda: hplm_update(hplm=hplm_of(served), dataset=world.classes, actor=None),
        lambda: domain_create(tenant=None, parent=root, name="medicine", corpus=world.corpus, actor=None),
        lambda: evaluation_request(version=served, dataset=world.classes, tenant=world.tenant, actor=None),
        lambda: version_set_policy(version=served, policy="table", actor=None),
        lambda: version_set_policy(version=served, policy="cascade", actor=None),
        lambda: version_export(version=served, out=store().root / "served.zip", actor=None, branch=True),
    ]
    for act in refused:
        with pytest.raises(HmiError, match="without lookup tables") as caught:
            act()
        assert caught.value.code == ErrorCode.MODEL_NOT_READY
    assert version_set_policy(version=served, policy="full", actor=None).policy == "full"
    with pytest.raises(HmiError) as caught:
        root_convert(root=root.root, actor=None)
    assert (caught.value.code, caught.value.param) == (ErrorCode.MISSING_FIELD, "corpus")


def test_pages_show_a_root_that_is_served_as_it_is(world: World, served: Version) -> None:
    tenant, admin = Client(), Client()
    tenant.force_login(world.owner)
    admin.force_login(world.staff)
    root = served.parent
    assert root is not None
    for version in (root, served):
        assert tenant.get(version_url(world.tenant, version)).status_code == 200
        assert admin.get(reverse("admin:tree_version_change", args=[version.pk])).status_code == 200
    pages = {"frontend:model": ["tone"], "frontend:playground": [], "frontend:model_new": []}
    for page, names in pages.items():
        assert tenant.get(reverse(page, args=[world.tenant.slug, *names])).status_code == 200
    assert admin.get(reverse("admin:tree_root_change", args=[root.root_id])).status_code == 200


def test_a_converted_root_has_the_first_model_too(
    world: World, staff: APIClient, published_model: Any
) -> None:
    made = register(
        staff,
        published_model.name_or_path,
        convert=True,
        corpus=world.corpus.pk,
        settings=SMALL_CONVERT,
    )
    root = run_jobs(Version.unscoped.get(pk=made.json()["id"]))
    first = Version.unscoped.get(hplm__name="tone")
    assert (root.state, first.state, first.parent) == ("ready", "ready", root)
    hplm = world.create_hplm(root, name="mood")
    assert build_inputs(hplm).start_from is None, "it starts from the root's layers, not from its head"
    archive = store().root.parent / "root.zip"
    version_export(version=root, out=archive, actor=None)
    assert not [name for name in zipfile.ZipFile(archive).namelist() if "hplm" in name]


def test_a_name_that_was_taken_meanwhile_does_not_hold_up_the_root(
    world: World, staff: APIClient, published_model: Any
) -> None:
    made = register(staff, published_model.name_or_path)
    Hplm.unscoped.create(tenant=world.tenant, name="tone", task="tagging")
    root = run_jobs(Version.unscoped.get(pk=made.json()["id"]))
    assert root.state == "ready"
    assert root.metrics["first_model"] == {"error": "A model named 'tone' already exists."}
    assert not Version.unscoped.filter(hplm__isnull=False).exists()


@pytest.mark.parametrize(
    ("fields", "param", "message"),
    [
        ({"first_model": "tone"}, "first_model", "tenant/model"),
        ({"first_model": "acme/Tone!"}, "first_model", "lower-case"),
        ({"first_model": "nobody/tone"}, "first_model", "tenant"),
        ({"kind": "decoder"}, "source", "encoder"),
        ({"corpus": 1}, "corpus", "takes no corpus"),
    ],
)
def test_a_first_model_that_cannot_be_made_is_refused_before_anything_is_created(
    world: World,
    staff: APIClient,
    published_model: Any,
    fields: dict[str, object],
    param: str,
    message: str,
) -> None:
    if "corpus" in fields:
        fields = {"corpus": world.corpus.pk}
    refused_with(register(staff, published_model.name_or_path, **fields), param, message)


def test_so_is_one_of_a_checkpoint_without_a_task_head(world: World, staff: APIClient) -> None:
    refused_with(register(staff, world.checkpoint), "first_model", "no task head")


def refused_with(response: Any, param: str, message: str) -> None:
    error = response.json()["error"]
    assert response.status_code in (404, 422), error
    assert (error["param"], message in error["message"]) == (param, True), error
    assert not Version.unscoped.exists()


def test_a_head_that_cannot_be_served_fails_the_job_with_the_reason(
    staff: APIClient, published_model: Any
) -> None:
    config_with(id2label={"0": "bad"})(Path(published_model.name_or_path))
    made = register(staff, published_model.name_or_path)
    version = run_jobs(Version.unscoped.get(pk=made.json()["id"]))
    (job,) = jobs_in_order(version)
    assert (version.state, job.error_code) == ("failed", "unsupported_checkpoint")
    assert "id2label must name the outputs 0 to 2" in job.error_message
    assert not list((store().root / ".incoming").iterdir())
    assert not Artifact.objects.exists()
