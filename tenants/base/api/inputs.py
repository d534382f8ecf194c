"""Parsers and serializers of requests. Unknown fields are refused, so that a misspelt one is noticed."""

from collections.abc import Collection, Mapping
from typing import IO, Any, Final, NoReturn

from rest_framework import serializers
from rest_framework.parsers import DataAndFiles, MultiPartParser
from rest_framework.request import Request
from rest_framework.settings import api_settings

from tenants.base.characters import check_fields
from tenants.base.errors import ErrorCode, HmiError, most_similar, suggestion
from tenants.base.upload_concurrency import release_database, upload_slot

MAX_FIELD_SHOWN: Final = 64
NON_FIELD_ERRORS: Final = str(api_settings.NON_FIELD_ERRORS_KEY)
INPUT_NAMES: Final = ("inputs", "input", "messages", "prompt", "texts", "text", "sentences", "documents")
"""What APIs call the texts to answer."""


class UploadFormParser(MultiPartParser):
    """Parses a multipart form in one of the sender's upload slots. Raises ``queue_full``,
    and ``invalid_encoding`` for a NUL character.

    It holds no database connection meanwhile: a client may take minutes to send its files.
    """

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> "DataAndFiles[Any, Any]":
        """Return the fields and the files, which are in memory or on disk then."""
        context = dict(parser_context or {})
        with upload_slot(_sender(context["request"])):
            release_database()
            found = super().parse(stream, media_type, context)
        check_fields(found.data)
        return found


def _sender(request: Any) -> int | str:
    """Return the tenant's id or, while the form is read for its CSRF token, the signed-in user."""
    tenant = getattr(request, "tenant", None)
    if tenant is not None:
        return int(tenant.pk)
    user = getattr(request._request, "user", None)
    return f"user {user.pk}" if user is not None else "nobody"


class ChoiceField(serializers.ChoiceField):
    """A choice whose refusal names the choices."""

    default_error_messages = {"invalid_choice": "{given!a} is not one of {choices}."}

    def fail(self, key: str, **values: Any) -> NoReturn:
        """Raise the ValidationError of this key."""
        given = str(values.get("input"))[:MAX_FIELD_SHOWN]
        super().fail(key, given=given, choices=", ".join(map(str, self.choices)), **values)


class SearchQuerySerializer(serializers.Serializer[Any]):
    """Lists only objects with these words in their names."""

    words = serializers.CharField(required=False, allow_blank=True, default="")


class StrictSerializer(serializers.Serializer[Any]):
    """A serializer that refuses unknown fields."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        """Return the values by name. Raises ValidationError for an unknown field or an invalid value."""
        known = [name for name, field in self.fields.items() if not field.read_only]
        for name in data if hasattr(data, "keys") else ():
            if name not in known:
                error = unknown_field(str(name), known)
                raise serializers.ValidationError({error.param or NON_FIELD_ERRORS: [error.message]})
        return dict(super().to_internal_value(data))


def validated_body(serializer: type[serializers.Serializer[Any]], request: Request) -> dict[str, Any]:
    """Return the values of the body. Raises ValidationError."""
    return _validated(serializer(data=request.data))


def validated_query(serializer: type[serializers.Serializer[Any]], request: Request) -> dict[str, Any]:
    """Return the values of the query string. Raises ValidationError."""
    return _validated(serializer(data=request.query_params))


def _validated(serializer: serializers.Serializer[Any]) -> dict[str, Any]:
    serializer.is_valid(raise_exception=True)
    return dict(serializer.validated_data)


def unknown_field(name: str, known: Collection[str]) -> HmiError:
    """Return the error for an unknown field, with the known fields and the most similar one."""
    # A name that is not printable may not be encodable either, and the response has to be.
    param = name if name.isprintable() and len(name) <= MAX_FIELD_SHOWN else None
    # Without quotes: the request log leaves out what is quoted.
    hint = suggestion(_similar_field(name[:MAX_FIELD_SHOWN], known))
    message = f"Unknown field {name[:MAX_FIELD_SHOWN]!r}; the fields are {', '.join(known)}.{hint}"
    return HmiError(ErrorCode.INVALID_FIELD, message, param=param)


def _similar_field(name: str, known: Collection[str]) -> str | None:
    """Return the known field for the same thing, else the one with the most similar name."""
    same = INPUT_NAMES if name.lower() in INPUT_NAMES else ()
    return next((field for field in same if field in known), None) or most_similar(name, known)
