"""A canary answers its share of the requests to an alias, by a real inference worker, over HTTP."""

import io
from typing import Any

import pytest
from rest_framework.test import APIClient

from tests.integration.inference.api.conftest import Ask, Served
from tests.rounding import up_to_rounding
from tests.unit.tiny import tiny_texts
from versiontree.tree.models import Hplm, Version
from versiontree.tree.services.canaries import canary_start
from versiontree.tree.services.hplms import version_set_policy

pytestmark = pytest.mark.usefixtures("worker")

GRADED = "acme/graded"
TEXTS = tiny_texts(12)


@pytest.fixture
def model(db: None, served: Served) -> Hplm:
    """Of two versions; a canary of 40% with the second is under way."""
    found = Hplm.unscoped.get(name="graded")
    version = Version.unscoped.get(hplm=found, number=2)
    canary_start(hplm=found, name="default", version=version, percent=40, actor=None)
    return found


def answered(ask: Ask, model: str, texts: list[str]) -> dict[str, Any]:
    answer = ask(model, texts)
    assert answer.status_code == 200, answer.content
    body: dict[str, Any] = answer.json()
    assert answer.headers["x-hmi-model"] == f"{GRADED}:{body['model']['version']}"
    return body


def by_version(ask: Ask) -> dict[str, int]:
    """The version that answers each text alone."""
    return {text: answered(ask, GRADED, [text])["model"]["version"] for text in TEXTS}


def test_answers_name_the_version_that_gave_them_and_repeat(ask: Ask, model: Hplm) -> None:
    found = by_version(ask)
    assert set(found.values()) == {1, 2}
    assert by_version(ask) == found
    for text, number in [*found.items()][:4]:
        drawn, named = (answered(ask, name, [text]) for name in (GRADED, f"{GRADED}:{number}"))
        assert drawn["model"] == named["model"]
        scores = drawn["results"][0]["scores"]
        assert scores == up_to_rounding(named["results"][0]["scores"])
    for text in TEXTS[:4]:
        assert answered(ask, f"{GRADED}:1", [text])["model"]["version"] == 1


def test_each_version_answers_by_its_own_policy(ask: Ask, model: Hplm) -> None:
    for number, policy in ((1, "table"), (2, "full")):
        version = Version.unscoped.get(hplm=model, number=number)
        version_set_policy(version=version, policy=policy, actor=None)
    seen = {
        (answer["model"]["version"], answer["results"][0]["level"])
        for answer in (answered(ask, GRADED, [text]) for text in TEXTS)
    }
    assert seen == {(1, "table"), (2, "full")}


def test_a_batch_is_answered_by_the_alias_s_own_version(served: Served, model: Hplm) -> None:
    client = APIClient(HTTP_AUTHORIZATION=f"Bearer {served.key}")
    for text in TEXTS[:3]:
        file = io.BytesIO(f'"{text}"'.encode())
        sent = client.post("/api/v1/batches", {"model": GRADED, "file": file}, format="multipart")
        assert sent.json()["version"] == 1
