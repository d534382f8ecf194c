"""What the client's package tells of the server, and those who check types of it."""

import tomllib
from dataclasses import fields, is_dataclass
from pathlib import Path

from drf_spectacular.generators import SchemaGenerator

import hmi_client
from hmi_client import responses

CHECKOUT = Path(__file__).resolve().parents[3]
NAMES = {
    "Usage": "TenantDetail",
    "Answer": "InferAnswer",
    "Split": "DatasetSplit",
    "Webhook": "WebhookWithSecret",
    "ApiKey": "ApiKeyCreated",
    "DatasetRow": "Row",
}
"""Of the shapes in the description of the API, where they are called otherwise there."""
LEFT_OUT = {
    "Tenant": {"auto_rebase", "checks_answers", "keeps_request_texts", "suspended_at"},
    "Usage": {
        *("auto_rebase", "checks_answers", "keeps_request_texts", "suspended_at"),
        *("name", "role", "created_at"),
    },
    "Dataset": {"leaks_allowed", "pairs", "created_by"},
    "Corpus": {"created_by"},
    "Upload": {"expires_at", "created_at"},
    "Check": {"store", "files", "finished_at", "created_at"},
}
"""What nobody needs who works with the client."""
UNDESCRIBED = {"Comparison"}
"""The description has an object without fields, as it is of two kinds."""


def test_the_client_has_a_field_for_everything_that_the_server_tells() -> None:
    schema = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    described = schema["components"]["schemas"]
    found = [shape for shape in vars(responses).values() if is_dataclass(shape) and isinstance(shape, type)]
    assert len(found) > 15
    for shape in found:
        if shape.__name__ in UNDESCRIBED:
            continue
        told = set(described[NAMES.get(shape.__name__, shape.__name__)]["properties"])
        assert {field.name for field in fields(shape)} == told - LEFT_OUT.get(shape.__name__, set()), shape


def test_whoever_installs_the_client_is_told_that_it_has_types() -> None:
    (folder,) = hmi_client.__path__
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    assert (Path(folder) / "py.typed").is_file()
    assert "py.typed" in project["tool"]["setuptools"]["package-data"]["hmi_client"]
