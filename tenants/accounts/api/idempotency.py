"""The same request twice, one answer: what the header Idempotency-Key is for."""

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
from tenants.accounts.services.idempotency import InFlight, OtherBody, StoredResponse, Turn, answering_once
from tenants.base.errors import ErrorCode, HmiError

log = logging.getLogger(__name__)

HEADER: Final = "Idempotency-Key"
REPLAYED: Final = "Idempotency-Replayed"
PATTERN: Final = re.compile(r"[!-~]{1,128}")
RETRY_IN_FLIGHT_S: Final = 1
OF_THE_BODY: Final = "Content-Type"


def check_key(value: str | None) -> str | None:
    """A key has 1 to 128 visible ASCII characters."""
    if value is None or PATTERN.fullmatch(value):
        return value
    message = "The key must have 1 to 128 visible ASCII characters."
    raise HmiError(ErrorCode.INVALID_FIELD, message, param=HEADER)


def in_flight() -> HmiError:
    """What is said while the first request with a key has no answer."""
    message = "A request with this key has no answer yet."
    return HmiError(ErrorCode.IN_FLIGHT, message, param=HEADER, retry_after=RETRY_IN_FLIGHT_S)


def other_body() -> HmiError:
    """What is said to another request with a key that was used."""
    message = "The key was used for a request with another body; each request needs its own."
    return HmiError(ErrorCode.INVALID_FIELD, message, param=HEADER)


class IdempotentView(APIView):
    """A view whose POST does once what is sent several times with one Idempotency-Key.

    Only what succeeded is kept: after an error, whichever, the next request with the key is as good as the
    first. A view that makes nothing has ``makes`` false, and takes no notice of the header.
    ``said_in_headers`` are those that say what is asked, beside the body.
    """

    makes = True
    said_in_headers: tuple[str, ...] = ()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Once it is known who asks, and that they may."""
        super().initial(request, *args, **kwargs)
        handler = "post"
        if not self.makes or request.method != "POST" or not hasattr(self, handler):
            return
        key = check_key(request.headers.get(HEADER))
        if key is not None:
            setattr(self, handler, partial(self._answered_once, getattr(self, handler), key))

    def _answered_once(
        self, answer: Callable[..., Response], key: str, request: Request, *args: Any, **kwargs: Any
    ) -> Response:
        body = _digest(request, self.said_in_headers)
        turn = partial(answering_once, tenant=getattr(request, "tenant", None), actor=request_actor(request))
        try:
            with turn(where=request.path, key=key, body=body) as mine:
                if mine.kept is not None:
                    return Response(
                        mine.kept.data, mine.kept.status, headers={**mine.kept.headers, REPLAYED: "true"}
                    )
                response = answer(request, *args, **kwargs)
                _keep(mine, response)
                return response
        except InFlight:
            raise in_flight() from None
        except OtherBody:
            raise other_body() from None


def _keep(turn: Turn, response: Response) -> None:
    """What was done is told, also when it cannot be kept."""
    if not is_success(response.status_code):
        return
    headers = {name: value for name, value in response.headers.items() if name != OF_THE_BODY}
    data = json.loads(JSONRenderer().render(response.data) or b"null")
    try:
        turn.keep(StoredResponse(response.status_code, headers, data))
    except DatabaseError as error:
        log.error("An answer could not be kept for its key: %s", error)


def _digest(request: Request, headers: tuple[str, ...]) -> str:
    """Stands for all that is asked. JSON is compared by its values; forms by their fields and the bytes of
    their files, however they are parted; a file is read piece by piece."""
    told = hashlib.sha256()
    told.update(
        _json([request.META.get("QUERY_STRING", ""), [request.headers.get(name) for name in headers]])
    )
    data = request.data
    if not isinstance(data, QueryDict):
        told.update(_json(data))
        return told.hexdigest()
    for name, values in sorted(data.lists()):
        for value in values:
            if isinstance(value, UploadedFile):
                told.update(_json([name, value.name, value.size]))
                for chunk in value.chunks():
                    told.update(chunk)
                value.seek(0)
            else:
                told.update(_json([name, value]))
    return told.hexdigest()


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, default=str).encode()
