"""What HTTP says of a request (its host, its kinds of content, its numbers), and names without meaning."""

import gzip
import json
from itertools import product
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from pytest_django import Settings
from rest_framework.test import APIClient

from tenants.datasets.models import Corpus
from tests.integration.versiontree.callers import error
from tests.integration.world import World, make_world
from versiontree.jobs.models import Job

MANAGE = "/api/v1/tenants/acme/models"
INFER = "/api/v1/infer?tenant=acme"
OIP = "/v2/models/acme/mood/infer"
EMBEDDINGS = "/v1/embeddings?tenant=acme"
FINE_TUNING = "/v1/fine_tuning/jobs?tenant=acme"
JSON = "application/json"
LONG = "7" * 5_000


@pytest.fixture
def world(db: None, redis_client: Any, artifact_root: Any, upload_root: Any) -> World:
    return make_world()


@pytest.fixture
def owner(world: World) -> APIClient:
    return world.client(world.owner)


# --- the host ---------------------------------------------------------------------------------------------


@pytest.fixture
def elsewhere(settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["hmi.example"]


def test_unknown_host_is_refused_with_the_setting_that_adds_it(client: Client, elsewhere: None) -> None:
    answer = client.get("/api/v1/models", headers={"Host": "evil.example:8000"})
    assert error(answer) == (400, "unknown_host", "Host")
    message = answer.json()["error"]["message"]
    assert "'evil.example:8000'" in message
    assert "HMI_ALLOWED_HOSTS" in message
    of_openai = client.get("/v1/models", headers={"Host": "evil.example"})
    assert (of_openai.status_code, of_openai.json()["error"]["code"]) == (400, "unknown_host")
    of_oip = client.get("/v2/models/mood", headers={"Host": "evil.example"})
    assert of_oip.status_code == 400
    assert "HMI_ALLOWED_HOSTS" in of_oip.json()["error"]


def test_unknown_host_is_escaped_in_the_page(client: Client, elsewhere: None) -> None:
    answer = client.get("/login/", headers={"Host": "<script>alert(1)</script>" + "x" * 9999})
    page = answer.content.decode()
    assert answer.status_code == 400
    assert "HMI_ALLOWED_HOSTS" in page
    assert "<script>alert" not in page
    assert "x" * 100 not in page


# --- kinds of content -------------------------------------------------------------------------------------


def test_compressed_body_is_refused_as_such(owner: APIClient) -> None:
    for path in (MANAGE, INFER, FINE_TUNING, "/api/v1/tenants/acme/uploads"):
        body = gzip.compress(b"{}")
        answer = owner.post(path, body, content_type=JSON, headers={"Content-Encoding": "gzip"})
        assert error(answer) == (415, "unsupported_type", "Content-Encoding"), path
        assert answer["Accept-Encoding"] == "identity", path
        plain = owner.post(path, "{}", content_type=JSON, headers={"Content-Encoding": "identity"})
        assert plain.status_code != 415, path


def test_open_inference_protocol_names_the_encodings_it_accepts(owner: APIClient) -> None:
    answer = owner.post(OIP, "{}", content_type=JSON, headers={"Content-Encoding": "br"})
    assert answer.status_code == 415
    assert answer["Accept-Encoding"] == "gzip, deflate, identity"


def test_an_answer_in_a_kind_that_there_is_not_is_406(owner: APIClient) -> None:
    answer = owner.get(MANAGE, headers={"Accept": "text/csv"})
    assert error(answer) == (406, "not_acceptable", "Accept")
    assert JSON in answer.json()["error"]["message"]


# --- numbers ----------------------------------------------------------------------------------------------


def test_a_number_without_end_is_refused_in_our_words(owner: APIClient) -> None:
    for path in (MANAGE, INFER, OIP):
        answer = owner.post(path, f'{{"model": {LONG}}}', content_type=JSON)
        assert answer.status_code in {400, 422}, path
        assert "digits" in answer.content.decode(), path
        assert "set_int_max" not in answer.content.decode(), path


def test_numbers_without_end_in_addresses_as_well(owner: APIClient) -> None:
    for path in (
        f"{MANAGE}?limit={LONG}",
        f"/v1/files?tenant=acme&limit={LONG}",
        f"/api/v1/tenants/acme/corpora/{LONG}",
        f"/v2/models/acme/mood/versions/{LONG}",
    ):
        answer = owner.get(path)
        assert answer.status_code < 500, path
        assert "set_int_max" not in answer.content.decode(), path


def test_and_in_headers(owner: APIClient) -> None:
    for header in ("X-Timeout-S", "Upload-Length", "Inference-Header-Content-Length"):
        for path in (INFER, OIP, "/api/v1/tenants/acme/uploads"):
            answer = owner.post(path, "{}", content_type=JSON, headers={header: LONG})
            assert answer.status_code < 500, header
            assert "set_int_max" not in answer.content.decode(), header


def test_numbers_beyond_a_float_break_nothing(owner: APIClient) -> None:
    for number, field in product(["1" + "0" * 400, "1e999"], ["timeout_s", "model"]):
        answer = owner.post(
            INFER, f'{{"model": "mood", "inputs": ["x"], "{field}": {number}}}', content_type=JSON
        )
        assert answer.status_code < 500, number


def test_characters_that_cannot_be_stored_are_refused_in_the_json_of_a_form(owner: APIClient) -> None:
    for columns, path in product(
        [r'{"text": "a\u0000"}', r'{"text": "\ud800"}', r'{"\udc00": "a"}'], ["datasets", "datasets/preview"]
    ):
        file = SimpleUploadedFile("a.csv", b"text,label\na,b\n")
        form = {"task": "classification", "train": file, "columns": columns}
        answer = owner.post(f"/api/v1/tenants/acme/{path}", form, format="multipart")
        assert error(answer)[:2] == (422, "invalid_encoding"), columns
        assert str(error(answer)[2]).startswith("columns"), columns


# --- names that mean nothing ------------------------------------------------------------------------------

TUNED = {"model": "minilm", "training_file": "file-0123456789abcdef0123456789abcdef"}


def test_a_field_that_is_not_known_is_refused_by_its_path(owner: APIClient) -> None:
    for path, body, param in (
        (FINE_TUNING, {**TUNED, "epochs": 3}, "epochs"),
        (FINE_TUNING, {**TUNED, "hmi": {"setting": {}}}, "hmi.setting"),
        (FINE_TUNING, {**TUNED, "hmi": {"settings": {"epoch": 3}}}, "hmi.settings.epoch"),
        (FINE_TUNING, {**TUNED, "hyperparameters": {"epochs": 3}}, "hyperparameters.epochs"),
        (
            FINE_TUNING,
            {**TUNED, "method": {"type": "supervised", "supervised": {"hyperparameters": {"lr": 1}}}},
            "method.supervised.hyperparameters.lr",
        ),
        ("/v1/batches?tenant=acme", {"endpoints": "/v1/embeddings"}, "endpoints"),
        (EMBEDDINGS, {"model": "mood", "input": "x", "dimension": 3}, "dimension"),
        ("/v1/completions?tenant=acme", {"model": "mood", "prompt": "x", "max_token": 3}, "max_token"),
    ):
        answer = owner.post(path, body, format="json")
        assert error(answer) == (422 if path.startswith("/api") else 400, "invalid_field", param)
        assert repr(param.rsplit(".", 1)[-1]) in answer.json()["error"]["message"]


def test_a_key_that_stands_twice_is_refused_by_its_name(owner: APIClient) -> None:
    for path in (MANAGE, INFER, FINE_TUNING, EMBEDDINGS):
        answer = owner.post(path, '{"name": "a", "deep": {"same": 1, "same": 2}}', content_type=JSON)
        assert error(answer)[1] == "invalid_json", path
        assert "'same'" in answer.json()["error"]["message"], path


def test_deeply_nested_body_is_refused(owner: APIClient) -> None:
    for depth in (100, 900, 90_000):
        for path in (MANAGE, INFER, OIP):
            body = json.dumps({"name": 0}).replace("0", "[" * depth + "]" * depth)
            answer = owner.post(path, body, content_type=JSON)
            assert answer.status_code in {400, 422}
            assert "nested" in answer.content.decode()


def test_misspelt_setting_is_refused_and_starts_nothing_with_defaults(owner: APIClient) -> None:
    asked = {"name": "new", "parent": 1, "dataset": 1, "setting": {"epochs": 1}}
    answer = owner.post(MANAGE, asked, format="json")
    assert error(answer) == (422, "invalid_field", "setting")
    assert "Did you mean settings?" in answer.json()["error"]["message"]
    assert not Job.unscoped.exists()


def test_unknown_field_of_a_form_is_refused(owner: APIClient) -> None:
    form = {"name": "new", "files": SimpleUploadedFile("a.txt", b"one line\n"), "license": "MIT"}
    answer = owner.post("/api/v1/tenants/acme/corpora", form, format="multipart")
    assert error(answer)[::2] == (422, "license")
    assert not Corpus.unscoped.exists()


def test_name_that_cannot_be_shown_breaks_no_answer(owner: APIClient) -> None:
    for name in ("", "\ud800", "n" * 9999):
        answer = owner.patch("/api/v1/tenants/acme", json.dumps({name: 1}), content_type=JSON)
        assert answer.status_code in {400, 422}, name
        assert len(answer.content) < 1000, name


def test_unknown_choice_is_refused_with_those_that_there_are(owner: APIClient) -> None:
    for address, param, choices in (
        ("jobs?state=nonsense", "state", ("queued", "running")),
        ("requests?status=nonsense", "status", ("answered", "failed")),
        ("usage?by=nonsense", "by", ("day", "model", "key")),
    ):
        answer = owner.get(f"/api/v1/tenants/acme/{address}")
        assert error(answer)[::2] == (422, param)
        assert all(choice in answer.json()["error"]["message"] for choice in choices)
