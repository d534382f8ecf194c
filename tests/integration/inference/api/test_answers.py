"""Infer requests that are answered, by a real inference worker."""

from typing import Any

import pytest
import torch
from rest_framework.test import APIClient

from inference.hplm.hplm import Hplm
from inference.hplm.plot import PlotChain, PlotTable
from inference.hplm.root import Root
from tenants.accounts.models import User
from tenants.usage.models import UsageDay
from tests.integration.inference.api.conftest import Ask, Served
from tests.processes import InferenceWorker
from tests.reference_hplm import predict_reference
from versiontree.artifact_store import ArtifactStore
from versiontree.tree.models import Version
from versiontree.tree.selectors.lineage import build_inputs

pytestmark = pytest.mark.usefixtures("worker")

TEXTS = ["a good stone in the river", "the doctor of a poor patient", "x"]


def alone(served: Served, hplm: str, text: str) -> Any:
    """What the model says when it is run alone, in plain PyTorch."""
    store = ArtifactStore(served.scratch / "a")
    version = Version.unscoped.get(hplm__name=hplm, number=1)
    assert version.parent is not None
    root = Root.load(store.path("root", version.parent.digest), torch.device("cpu"), torch.float32)
    tables = [PlotTable.open(store.path("plot", plot.digest)) for plot in build_inputs(version).plots]
    return predict_reference(root, PlotChain(tables), Hplm.load(store.path("hplm", version.digest)), text)


def durations(header: str) -> dict[str, float]:
    """What a header `Server-Timing` says, in milliseconds."""
    entries = (entry.partition(";dur=") for entry in header.split(", "))
    return {name: float(spent) for name, _, spent in entries}


def test_a_classification_is_what_the_hplm_says_alone(ask: Ask, served: Served) -> None:
    answer = ask("acme/mood", TEXTS, quality="fast")
    assert answer.status_code == 200
    for result, text in zip(answer.json()["results"], TEXTS, strict=True):
        expected = alone(served, "mood", text)
        assert result["label"] == expected.label
        assert result["scores"] == pytest.approx(expected.scores, abs=1e-4)
        assert result["truncated"] is False


def test_tagged_spans_carry_character_offsets_into_the_text(ask: Ask, served: Served) -> None:
    results = ask("acme/places", TEXTS, quality="fast").json()["results"]
    found = [(span, text) for result, text in zip(results, TEXTS, strict=True) for span in result["spans"]]
    assert found
    for span, text in found:
        assert text[span["start"] : span["end"]] == span["text"]
    expected = [(span.start, span.end, span.label) for span in alone(served, "places", TEXTS[0]).spans]
    assert [(s["start"], s["end"], s["label"]) for s in results[0]["spans"]] == expected


def test_the_answer_names_the_version_and_says_what_it_took(ask: Ask, served: Served) -> None:
    answer = ask("mood", TEXTS, quality="fast")
    body = answer.json()
    version = Version.unscoped.get(hplm__name="mood", number=1)
    named = {"name": "acme/mood", "version": 1, "digest": version.digest}
    assert body["model"] == named | {"number_format": "float32"}
    assert body["usage"]["inputs"] == 3
    assert body["usage"]["truncated"] == 0
    plot = body["plot"]
    ratio = plot.pop("hit_ratio")
    assert plot.keys() == {"trigram", "bigram", "unigram"}
    assert body["usage"]["tokens"] == sum(plot.values())
    assert 0 < ratio < 1
    assert ratio == pytest.approx(plot["trigram"] / sum(plot.values()), abs=1e-4)
    assert body["batch"]["rows"] >= 1
    assert set(body["timings_ms"]) == {"queue", "retrieval", "adapter_load", "compute", "total"}
    assert answer["X-Request-Id"] == body["id"]
    assert (answer["x-hmi-model"], answer["x-hmi-digest"]) == ("acme/mood:1", version.digest)
    assert answer["x-hmi-number-format"] == "float32"
    assert float(answer["x-hmi-plot-hit-ratio"]) == ratio
    assert durations(answer["Server-Timing"]) == pytest.approx(body["timings_ms"], rel=1e-5)


@pytest.mark.parametrize("reference", ["mood", "acme/mood@default", "acme/mood:1", " mood "])
def test_a_model_has_many_names(ask: Ask, reference: str) -> None:
    assert ask(reference).json()["model"]["name"] == "acme/mood"


def test_a_megabyte_of_text_is_cut_and_said_to_be(ask: Ask) -> None:
    body = ask("mood", ["river stone " * 90_000, "short"]).json()
    assert [result["truncated"] for result in body["results"]] == [True, False]
    assert body["usage"]["truncated"] == 1


@pytest.mark.parametrize("text", ["\x01\x02", "\ufeff", "﷽" * 100])
def test_odd_texts_are_answered(ask: Ask, text: str) -> None:
    assert ask("mood", [text]).status_code == 200


def test_as_many_inputs_as_are_allowed_are_answered_in_order(ask: Ask, served: Served) -> None:
    texts = [f"{'good' if number % 2 else 'bad'} river {number}" for number in range(256)]
    results = ask("mood", texts, quality="fast").json()["results"]
    assert len(results) == 256
    assert results[7]["scores"] == pytest.approx(alone(served, "mood", texts[7]).scores, abs=1e-4)


def test_usage_is_recorded_for_each_request(ask: Ask, served: Served) -> None:
    tokens = sum(ask("places", TEXTS).json()["usage"]["tokens"] for _ in range(2))
    day = UsageDay.objects.for_tenant(served.world.tenant).get(model_name="places")
    assert (day.requests, day.inputs, day.failed) == (2, 6, 0)
    assert day.tokens == tokens


def test_a_member_asks_with_their_session(served: Served, viewer: User) -> None:
    client = APIClient()
    client.force_login(viewer)
    body = {"model": "acme/mood", "inputs": TEXTS}
    assert client.post("/api/v1/infer", body, format="json").status_code == 200
    assert (
        client.post("/api/v1/infer?tenant=acme", body | {"model": "mood"}, format="json").status_code == 200
    )


def test_a_session_without_the_page_s_token_is_refused(served: Served, viewer: User) -> None:
    client = APIClient(enforce_csrf_checks=True)
    client.force_login(viewer)
    refused = client.post("/api/v1/infer", {"model": "acme/mood", "inputs": TEXTS}, format="json")
    assert refused.status_code == 403


def test_a_form_s_content_type_does_not_matter(served: Served, worker: InferenceWorker, db: None) -> None:
    client = APIClient(HTTP_X_API_KEY=served.key)
    answer = client.post(
        "/api/v1/infer",
        '{"model": "mood", "inputs": ["x"]}',
        content_type="application/x-www-form-urlencoded",
    )
    assert answer.status_code == 200
