"""DRF's parser and metadata for this API: strict JSON of bounded size."""

from collections.abc import Mapping
from typing import IO, Any

from django.conf import settings
from rest_framework.metadata import SimpleMetadata
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from inference.api.parsers import read_json
from tenants.base.characters import check_characters
from tenants.base.upload_concurrency import SMALL_BODY_BYTES, release_database


class StrictJSONParser(BaseParser):
    """Parses a body without holding a database connection: a slow client may take minutes.

    Raises `invalid_json`, `invalid_encoding` or `body_too_large`, with the path of the error.
    """

    media_type = "application/json"

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        release_database()
        data = read_json(stream, most_bytes=min(SMALL_BODY_BYTES, settings.HMI_MAX_BODY_BYTES))
        check_characters(data)
        return data


class AllowedMethods(SimpleMetadata):
    """OPTIONS: the description and the methods. Fields are in the OpenAPI schema only.

    DRF would look up the object to list its fields, and it may not exist.
    """

    def determine_actions(self, request: Request, view: Any) -> dict[str, Any]:
        return {}
