"""The main job of the product, thin but real: from a published checkpoint to an answered infer request."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from django.test import Client
from django.urls import reverse
from pytest_django import Settings
from rest_framework.test import APIClient

from frontend.presenters.version_page import version_url
from inference.api.admission import close_gateway
from inference.cascade.profile import CascadeProfile
from inference.hplm.hplm import Hplm
from inference.hplm.plot import PlotChain, PlotTable
from inference.hplm.root import Root
from inference.text.predictions import ClassPrediction
from tenants.accounts.models import User
from tenants.accounts.services.api_keys import api_key_create
from tests.integration.jobs.conftest import StartWorker
from tests.integration.jobs.world import World, store, wait_for_jobs
from tests.integration.versiontree.tree_factory import jobs_in_order
from tests.processes import CeleryWorker, InferenceWorker, wait_until
from tests.reference_hplm import predict_reference
from versiontree.jobs.models import Job
from versiontree.tree.models import Version
from versiontree.tree.resolution import resolve_model
from versiontree.tree.selectors.lineage import build_inputs
from versiontree.tree.services.domains import domain_create

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1800)]


@pytest.fixture
def inference_worker(world: World, artifact_root: Path, redis_url: str) -> Iterator[InferenceWorker]:
    """Started before there is anything to serve."""
    worker = InferenceWorker(redis_url, artifact_root)
    yield worker.wait_until_ready()
    close_gateway()
    worker.terminate()


def build(version: Version, worker: CeleryWorker) -> Version:
    """Wait for the version to be ready."""

    def ended() -> bool:
        version.refresh_from_db()
        return version.state != "building"

    wait_for_jobs(ended, worker)
    failures = [
        (job.kind, job.error_message, job.traceback) for job in jobs_in_order(version) if job.error_code
    ]
    assert version.state == "ready", failures
    return version


def published_digests() -> dict[str, str]:
    """Of the versions in the manifest, which is written after the transaction that makes one ready."""
    path = store().root / "manifest.json"
    served = json.loads(path.read_text())["hplms"] if path.is_file() else {}
    return {name: version["digest"] for name, version in served.items()}


def predicted_alone(version: Version, text: str) -> dict[str, float]:
    """The scores of the model run alone, in plain PyTorch, from the same artifacts, with the temperature of
    its profile."""
    (root,) = Version.unscoped.filter(kind="root")
    tables = [PlotTable.open(store().path("plot", plot.digest)) for plot in build_inputs(version).plots]
    loaded = Root.load(store().path("root", root.digest), torch.device("cpu"), torch.float32)
    folder = store().path("hplm", version.digest)
    prediction = predict_reference(loaded, PlotChain(tables), Hplm.load(folder), text)
    profile = CascadeProfile.load(folder)
    assert isinstance(prediction, ClassPrediction)
    assert profile is not None
    calibrated = {
        label: score ** (1 / profile.table.temperature) for label, score in prediction.scores.items()
    }
    return {label: score / sum(calibrated.values()) for label, score in calibrated.items()}


def test_a_checkpoint_becomes_a_root_a_domain_an_hplm_and_an_answer(
    world: World, start_worker: StartWorker, inference_worker: InferenceWorker, settings: Settings
) -> None:
    settings.HMI_CORPUS_MIN_WORDS = 0
    worker = start_worker()
    root = build(world.register_root(), worker)
    domain = build(
        domain_create(
            tenant=None,
            parent=root,
            name="texts",
            corpus=world.corpus,
            actor=world.staff,
            settings={"tokens": 2_000},
        ),
        worker,
    )
    hplm = build(world.create_hplm(domain), worker)
    assert set(hplm.metrics) == {"fine_tune", "evaluate"}
    assert Job.unscoped.exclude(state="succeeded").count() == 0
    assert len(build_inputs(hplm).plots) == 2
    resolved = resolve_model(world.tenant, "mood")
    assert (resolved.version_number, resolved.digest) == (1, hplm.digest)
    wait_until(lambda: published_digests().get("acme/mood:1") == hplm.digest, worker)

    assert_answers_as_alone(hplm, world, inference_worker)
    assert_pages_show_what_the_jobs_reported(world)


def assert_answers_as_alone(hplm: Version, world: World, worker: InferenceWorker) -> None:
    """The API gives the scores of the model run alone, once the worker has its root."""
    wait_until(lambda: (status := worker.status()) and hplm.root.name in status.roots, worker)
    _, key = api_key_create(tenant=world.tenant, name="client", scopes=["infer"], created_by=world.owner)
    client = APIClient(HTTP_AUTHORIZATION=f"Bearer {key}")
    texts = ["a good river", "the bad stone in winter"]
    answer = client.post(
        "/api/v1/infer", {"model": "acme/mood", "inputs": texts, "quality": "fast"}, format="json"
    )
    assert answer.status_code == 200, answer.content
    body = answer.json()
    named = {"name": "acme/mood", "version": 1, "digest": hplm.digest}
    assert body["model"] == named | {"number_format": "float32"}
    for result, text in zip(body["results"], texts, strict=True):
        assert result["scores"] == pytest.approx(predicted_alone(hplm, text), abs=1e-4)


def assert_pages_show_what_the_jobs_reported(world: World) -> None:
    """Every version and every job can be looked at, by the tenant and in the admin."""
    tenant, admin = Client(), Client()
    tenant.force_login(world.owner)
    admin.force_login(User.objects.create_superuser("admin"))
    for version in Version.unscoped.all():
        shown = tenant.get(version_url(world.tenant, version))
        assert shown.status_code == 200
        assert "Lookup tables" in shown.content.decode()
        assert admin.get(reverse("admin:tree_version_change", args=[version.pk])).status_code == 200
    for job in Job.unscoped.all():
        assert admin.get(reverse("admin:jobs_job_change", args=[job.pk])).status_code == 200
        if job.tenant_id:
            assert tenant.get(reverse("frontend:job", args=[world.tenant.slug, job.pk])).status_code == 200
