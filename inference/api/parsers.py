"""Reading the JSON body of a request: bounded in size."""

from collections.abc import Mapping
from typing import IO, Any

from django.conf import settings
from rest_framework.parsers import BaseParser

from inference.api.large_bodies import hold
from inference.api.validation import check_body_size
from tenants.base.strict_json import parse_json
from tenants.base.upload_concurrency import release_database


def read_json(stream: IO[bytes], *, most_bytes: int | None = None) -> object:
    """`parse_json` of the stream, of which at most `most_bytes` are read, whatever the headers claim; by
    default what one infer request may have. Raises `body_too_large`, and `queue_full` while other large
    bodies are in progress."""
    limit = settings.HMI_MAX_BODY_BYTES if most_bytes is None else most_bytes
    raw = stream.read(limit + 1)
    check_body_size(len(raw), limit=limit)
    hold(len(raw))
    return parse_json(raw)


class InferBodyParser(BaseParser):
    """Takes the body as JSON whatever its content type says: `curl -d` sends a form's."""

    media_type = "*/*"

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """The value that the body spells. Whoever sends it slowly holds no connection to the database."""
        release_database()
        return read_json(stream)
