"""The generated files of the documentation, and the descriptions of the API that releases had."""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from drf_spectacular.generators import SchemaGenerator

from hmi_site.reference.api_page import api_page
from hmi_site.reference.command_page import command_page

KEPT: Final = "openapi-*.json"


def document_now() -> dict[str, Any]:
    """The OpenAPI document of the code as it is, as clients get it."""
    made = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return dict(json.loads(json.dumps(made)))


def pages_now() -> dict[Path, str]:
    """Each page of the reference, and what ought to stand in it."""
    docs = _docs()
    return {docs / "reference.md": api_page(document_now()), docs / "command.md": command_page()}


def documents_kept() -> Iterator[Path]:
    """The descriptions of released APIs, that their clients go by."""
    yield from sorted((_docs() / "api").glob(KEPT))


def document_of_release() -> Path:
    """Where the description of the release that is being made is kept."""
    project = tomllib.loads((Path(settings.BASE_DIR) / "pyproject.toml").read_text(encoding="utf-8"))
    return _docs() / "api" / KEPT.replace("*", project["project"]["version"])


def _docs() -> Path:
    return Path(settings.BASE_DIR) / "docs"
