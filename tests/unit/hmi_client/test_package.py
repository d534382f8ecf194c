"""What the client's package tells of the server, and those who check types of it."""

import tomllib
from collections.abc import AsyncIterator, Iterator
from dataclasses import fields, is_dataclass
from inspect import signature
from pathlib import Path

from drf_spectacular.generators import SchemaGenerator

import hmi_client
from hmi_client import completions, responses

CHECKOUT = Path(__file__).resolve().parents[3]
NAMES = {
    "Usage": "TenantDetail",
    "Answer": "InferAnswer",
    "Split": "DatasetSplit",
    "Message": "AssistantMessage",
    "Webhook": "WebhookWithSecret",
}
"""Of the shapes in the description of the API, where they are called otherwise there."""
LEFT_OUT = {
    "Tenant": {"checks_answers", "keeps_request_texts", "suspended_at"},
    "Usage": {
        *("checks_answers", "keeps_request_texts", "suspended_at"),
        *("name", "role", "created_at"),
    },
    "Dataset": {"leaks_allowed", "pairs", "created_by"},
    "Corpus": {"created_by"},
    "Upload": {"expires_at", "created_at"},
    "Check": {"store", "files", "finished_at", "created_at"},
    "ChatCompletion": {"object", "system_fingerprint"},
    "Completion": {"object", "system_fingerprint"},
    "Message": {"refusal"},
}
"""What nobody needs who works with the client."""
STREAMED = {"CompletionDelta"}
"""Shapes of streams, which the description of the API does not have."""


def test_the_client_has_a_field_for_everything_that_the_server_tells() -> None:
    schema = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    described = schema["components"]["schemas"]
    defined = {**vars(responses), **vars(completions)}
    found = [
        shape
        for name, shape in defined.items()
        if is_dataclass(shape) and isinstance(shape, type) and name not in STREAMED
    ]
    assert len(found) > 15
    for shape in found:
        told = set(described[NAMES.get(shape.__name__, shape.__name__)]["properties"])
        assert {field.name for field in fields(shape)} == told - LEFT_OUT.get(shape.__name__, set()), shape


def test_whoever_installs_the_client_is_told_that_it_has_types() -> None:
    (folder,) = hmi_client.__path__
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    assert (Path(folder) / "py.typed").is_file()
    assert "py.typed" in project["tool"]["setuptools"]["package-data"]["hmi_client"]


def test_help_shows_the_parameters_and_the_result_of_each_method() -> None:
    shown = str(signature(hmi_client.Client.infer))
    assert shown.startswith("(self, /, model: str, inputs: ")
    assert shown.endswith("-> hmi_client.responses.Answer")
    assert str(signature(hmi_client.AsyncClient.infer)).endswith("Awaitable[hmi_client.responses.Answer]")
    assert signature(hmi_client.Client.delete_model).return_annotation is None
    assert signature(hmi_client.Client.list_models).return_annotation == Iterator[responses.Model]
    assert signature(hmi_client.AsyncClient.list_models).return_annotation == AsyncIterator[responses.Model]
    with hmi_client.Client("http://127.0.0.1:9", "a.b") as client:
        assert str(signature(client.infer)).startswith("(model: str, inputs: ")
        assert "Run a model on inputs" in (client.infer.__doc__ or "")
