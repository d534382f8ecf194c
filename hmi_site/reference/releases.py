"""The descriptions of the API that releases had: with them every later version is compared."""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from drf_spectacular.generators import SchemaGenerator

KEPT: Final = "openapi-*.json"


def document_now() -> dict[str, Any]:
    """The OpenAPI document of the code as it is, as clients get it."""
    made = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return dict(json.loads(json.dumps(made)))


def documents_kept() -> Iterator[Path]:
    """The descriptions of released APIs, that their clients go by."""
    yield from sorted((_docs() / "api").glob(KEPT))


def document_of_release() -> Path:
    """Where the description of the release that is being made is kept."""
    project = tomllib.loads((Path(settings.BASE_DIR) / "pyproject.toml").read_text(encoding="utf-8"))
    return _docs() / "api" / KEPT.replace("*", project["project"]["version"])


def _docs() -> Path:
    return Path(settings.BASE_DIR) / "docs"
