"""The ``Idempotency-Key`` header: a repeated request gets the stored response of the first."""

import hashlib
import json
import logging
import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from django.core.files.uploadedfile import UploadedFile
from django.db import DatabaseError
from django.http import QueryDict
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.status import is_success
from rest_framework.views import APIView

from tenants.accounts.permissions import request_actor
from tenants.accounts.services.idempotency import (
    IdempotencyKeyInUse,
    IdempotencyKeyReused,
    IdempotencyRecord,
    StoredResponse,
    idempotent_request,
)
from tenants.base.errors import ErrorCode, HmiError

log = logging.getLogger(__name__)

HEADER: Final = "Idempotency-Key"
REPLAYED: Final = "Idempotency-Replayed"
KEY_PATTERN: Final = re.compile(r"[!-~]{1,128}")
RETRY_AFTER_S: Final = 1


def check_key(value: str | None) -> str | None:
    """Return the key, or raise ``invalid_field`` unless it has 1 to 128 visible ASCII characters."""
    if value is None or KEY_PATTERN.fullmatch(value):
        return value
    message = "The key must have 1 to 128 visible ASCII characters."
    raise HmiError(ErrorCode.INVALID_FIELD, message, param=HEADER)


def key_in_use() -> HmiError:
    """Return the error for a key whose first request is still being processed."""
    message = "A request with this key is still being processed."
    return HmiError(ErrorCode.IN_FLIGHT, message, param=HEADER, retry_after=RETRY_AFTER_S)


def key_reused() -> HmiError:
    """Return the error for a key that was used for another request."""
    message = "This key was used for a request with another body. Use a new key for each request."
    return HmiError(ErrorCode.INVALID_FIELD, message, param=HEADER)


class IdempotentView(APIView):
    """A view whose POST runs once for all requests with the same ``Idempotency-Key``.

    Only successful responses are stored. After an error, the next request with the key runs again. A POST
    that creates nothing sets ``takes_idempotency_key`` to False and ignores the header. The request is
    compared by its query string, its body and the ``fingerprint_headers``.
    """

    takes_idempotency_key = True
    fingerprint_headers: tuple[str, ...] = ()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Wrap the handler, once the caller is authorized."""
        super().initial(request, *args, **kwargs)
        handler = "post"
        if not self.takes_idempotency_key or request.method != "POST" or not hasattr(self, handler):
            return
        key = check_key(request.headers.get(HEADER))
        if key is not None:
            setattr(self, handler, partial(self._run_once, getattr(self, handler), key))

    def _run_once(
        self, handler: Callable[..., Response], key: str, request: Request, *args: Any, **kwargs: Any
    ) -> Response:
        locked = idempotent_request(
            tenant=getattr(request, "tenant", None),
            actor=request_actor(request),
            path=request.path,
            key=key,
            fingerprint=_fingerprint(request, self.fingerprint_headers),
        )
        try:
            with locked as record:
                stored = record.response
                if stored is not None:
                    return Response(stored.data, stored.status, headers={**stored.headers, REPLAYED: "true"})
                response = handler(request, *args, **kwargs)
                _save(record, response)
                return response
        except IdempotencyKeyInUse:
            raise key_in_use() from None
        except IdempotencyKeyReused:
            raise key_reused() from None


def _save(record: IdempotencyRecord, response: Response) -> None:
    """Store a successful response. If the database fails, the client still gets it."""
    if not is_success(response.status_code):
        return
    headers = {name: value for name, value in response.headers.items() if name != "Content-Type"}
    data = json.loads(JSONRenderer().render(response.data) or b"null")
    try:
        record.save(StoredResponse(response.status_code, headers, data))
    except DatabaseError as error:
        log.error("Could not store the response for an idempotency key: %s", error)


def _fingerprint(request: Request, headers: tuple[str, ...]) -> str:
    """Return a digest of the request: JSON by its values, forms by their fields and the bytes of their files,
    whatever the boundary. Files are read in chunks."""
    digest = hashlib.sha256()
    digest.update(
        _json([request.META.get("QUERY_STRING", ""), [request.headers.get(name) for name in headers]])
    )
    data = request.data
    if not isinstance(data, QueryDict):
        digest.update(_json(data))
        return digest.hexdigest()
    for name, values in sorted(data.lists()):
        for value in values:
            if isinstance(value, UploadedFile):
                digest.update(_json([name, value.name, value.size]))
                for chunk in value.chunks():
                    digest.update(chunk)
                value.seek(0)
            else:
                digest.update(_json([name, value]))
    return digest.hexdigest()


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, default=str).encode()
