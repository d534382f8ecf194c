"""What a client sends: nothing beyond what is known. Passed over, a misspelt field would go unnoticed."""

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import IO, Any

from rest_framework import serializers
from rest_framework.parsers import DataAndFiles, MultiPartParser
from rest_framework.settings import api_settings

from tenants.base.errors import ErrorCode, HmiError
from tenants.base.upload_concurrency import release_database, upload_slot


class FormParser(MultiPartParser):
    """Reads a form in one of its sender's places (``upload_slot``), without a connection to the database: a
    client may take minutes over its files. Raises ``queue_full``."""

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> "DataAndFiles[Any, Any]":
        """The fields and the files, which are in memory or on disk now."""
        context = dict(parser_context or {})
        with upload_slot(_sender(context["request"])):
            release_database()
            return super().parse(stream, media_type, context)


def _sender(request: Any) -> int | str:
    """The tenant. Where that is not known yet, as the form is read for its CSRF token: who is signed in."""
    tenant = getattr(request, "tenant", None)
    if tenant is not None:
        return int(tenant.pk)
    user = getattr(request._request, "user", None)
    return f"user {user.pk}" if user is not None else "nobody"


class WordsQuerySerializer(serializers.Serializer[Any]):
    """Only what has these words in its name."""

    words = serializers.CharField(required=False, default="")


MAX_FIELD_SHOWN = 64


NON_FIELD_ERRORS = str(api_settings.NON_FIELD_ERRORS_KEY)


class StrictInput(serializers.Serializer[Any]):
    """A body with these fields and no others."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        """The values by name. Raises ValidationError where a field is not known, or a value not right."""
        known = [name for name, field in self.fields.items() if not field.read_only]
        for name in data if hasattr(data, "keys") else ():
            if name not in known:
                refused = unknown_field(str(name), known)
                raise serializers.ValidationError({refused.param or NON_FIELD_ERRORS: [refused.message]})
        return dict(super().to_internal_value(data))


def unknown_field(name: str, known: Collection[str]) -> HmiError:
    """That there is no such field, and which it may have been meant for."""
    # A name that cannot be printed may not be encodable either, and the answer has to be.
    param = name if name.isprintable() and len(name) <= MAX_FIELD_SHOWN else None
    near = get_close_matches(name[:MAX_FIELD_SHOWN], known, n=1)
    meant = f" Is {near[0]!r} meant?" if near else ""
    message = f"Unknown field {name[:MAX_FIELD_SHOWN]!r}; the fields are {', '.join(known)}.{meant}"
    return HmiError(ErrorCode.INVALID_FIELD, message, param=param)
