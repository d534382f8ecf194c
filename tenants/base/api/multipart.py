"""Forms with files, as they come in."""

from collections.abc import Mapping
from typing import IO, Any

from rest_framework.parsers import DataAndFiles, MultiPartParser

from tenants.base.upload_concurrency import receiving, release_database


class FormParser(MultiPartParser):
    """Reads a form in one of its sender's places (``receiving``), without a connection to the database: a
    client may take minutes over its files. Raises ``queue_full``."""

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> "DataAndFiles[Any, Any]":
        """The fields and the files, which are in memory or on disk now."""
        context = dict(parser_context or {})
        with receiving(_sender(context["request"])):
            release_database()
            return super().parse(stream, media_type, context)


def _sender(request: Any) -> int | str:
    """The tenant. Where that is not known yet, as the form is read for its CSRF token: who is signed in."""
    tenant = getattr(request, "tenant", None)
    if tenant is not None:
        return int(tenant.pk)
    user = getattr(request._request, "user", None)
    return f"user {user.pk}" if user is not None else "nobody"
