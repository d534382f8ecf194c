"""Ten thousand models: registered, listed, opened and served by one worker."""

import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from redis import Redis
from rest_framework.test import APIClient

from inference.api.prepared_request import outputs_of, text_codec, token_sequences
from inference.hplm.hplm import Hplm as Model
from inference.hplm.plot import PlotChain, PlotTable
from inference.hplm.root import Root
from inference.queueing.messages import InferReply, InferRequest
from inference.text.codec import TextCodec
from inference.text.encodings import InferInput
from inference.text.tasks import CLASSIFICATION
from tenants.accounts.models import Tenant
from tenants.accounts.services.api_keys import api_key_create
from tests.integration.inference.queueing.requests import STREAM
from tests.integration.inference.worker.traffic import Load
from tests.integration.jobs.world import World, store
from tests.processes import InferenceWorker
from tests.reference_hplm import predict_reference
from tests.rounding import up_to_rounding
from tests.unit.tiny import tiny_hplms, tiny_root
from versiontree.tree.models import Hplm, Version
from versiontree.tree.selectors.lineage import build_inputs

pytestmark = pytest.mark.thorough

MANY, TENANTS, COMPARED = 10_000, 100, 100
TEXT = "the doctor of a poor patient in the city by the river"


@pytest.fixture
def versions(world: World, tmp_path: Path) -> list[Version]:
    """The versions of ten thousand models like one that was made by hand."""
    root = world.ready_root(tmp_path / "root")
    [model] = tiny_hplms(tiny_root(tmp_path / "again"), 1)
    world.ready_hplm(root, model, tmp_path, name="mood")
    call_command("populate", "acme/mood", models=MANY, tenants=TENANTS, usage=MANY)
    made = Version.unscoped.filter(hplm__name__startswith="mood-").select_related("hplm__tenant")
    return list(made.order_by("pk"))


@pytest.fixture
def worker(versions: list[Version], artifact_root: Path, redis_url: str) -> Iterator[InferenceWorker]:
    """Started with all of them to serve."""
    worker = InferenceWorker(redis_url, artifact_root)
    yield worker.wait_until_ready()
    worker.terminate()


def request_to(version: Version, root: str) -> InferRequest:
    now = time.time()
    assert version.hplm is not None
    return InferRequest(
        id=uuid.uuid4().hex,
        tenant=version.hplm.tenant.slug,
        hplm=version.hplm.name,
        version=version.number,
        digest=version.digest,
        root=root,
        sequences=token_sequences(codec(version, root).encode([InferInput(TEXT)]), task=CLASSIFICATION),
        deadline=now + 600,
        enqueued_at=now,
        reply_to=STREAM,
    )


def codec(version: Version, root: str) -> TextCodec:
    """How its texts are read."""
    return text_codec(root=root, version=version.digest, embed=False)


def result_of(version: Version, reply: InferReply) -> dict[str, Any]:
    """What the edge makes of a reply to it, without what is the same for all."""
    read = codec(version, Version.unscoped.get(kind="root").digest)
    [result] = read.results(read.encode([InferInput(TEXT)]), outputs_of(reply.outputs))
    return {name: value for name, value in result.items() if name not in ("truncated", "level", "confidence")}


def ask_all(redis: Redis, versions: list[Version]) -> dict[str, InferReply]:
    """The answer of each version, by the digest that it was asked by."""
    answers: dict[str, InferReply] = {}

    def keep(request: InferRequest, reply: InferReply) -> None:
        answers[request.digest] = reply

    root = Version.unscoped.get(kind="root").digest
    requests = [request_to(version, root) for version in versions]
    with Load(redis, requests.__getitem__, keep, outstanding=500, most=len(requests)) as load:
        load.finish(within_s=400)
    return answers


def alone(version: Version) -> dict[str, Any]:
    """What the version says in plain PyTorch."""
    (root,) = Version.unscoped.filter(kind="root")
    tables = [PlotTable.open(store().path("plot", plot.digest)) for plot in build_inputs(version).plots]
    loaded = Root.load(store().path("root", root.digest), "cpu")
    hplm = Model.load(store().path("hplm", version.digest))
    return predict_reference(loaded, PlotChain(tables), hplm, TEXT).to_json()


def test_ten_thousand_hplms_are_registered_listed_opened_and_served(
    redis: Redis, world: World, versions: list[Version], worker: InferenceWorker
) -> None:
    assert len(versions) == MANY == len({version.digest for version in versions})
    assert listed("populated-7", world) == {
        version.hplm.name
        for version in versions
        if version.hplm and version.hplm.tenant.slug == "populated-7"
    }
    answers = ask_all(redis, versions)
    assert answers.keys() == {version.digest for version in versions}
    refused = [reply.error for reply in answers.values() if not reply.ok]
    assert refused[:3] == []
    assert all(reply.model.digest == digest for digest, reply in answers.items())
    for version in versions[:: MANY // COMPARED]:
        expected = up_to_rounding(alone(version), within=1e-3)
        assert result_of(version, answers[version.digest]) == expected
    assert len({reply.outputs for reply in answers.values()}) > 0.9 * MANY
    status = worker.status()
    assert status is not None
    assert (status.slot_mismatches, status.last_error) == (0, "")


def listed(slug: str, world: World) -> set[str]:
    """The names of a tenant's models, page by page, each page by as many queries as the first."""
    tenant = Tenant.objects.get(slug=slug)
    _, key = api_key_create(tenant=tenant, name="client", scopes=["manage"], created_by=world.owner)
    client, names, queries = APIClient(HTTP_AUTHORIZATION=f"Bearer {key}"), set(), []
    url: str | None = "/api/v1/models"
    while url:
        with CaptureQueriesContext(connection) as captured:
            page = client.get(url).json()
        names |= {entry["name"] for entry in page["results"]}
        queries.append(len(captured))
        url = page["next"]
    assert max(queries) < 15
    assert len(names) == Hplm.unscoped.filter(tenant=tenant).count()
    return names
