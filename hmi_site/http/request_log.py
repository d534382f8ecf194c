"""Request ids, in the response and in every log line of the request; one log line for each infer request."""

import logging
import time
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

from django.core.signals import request_finished
from django.http import HttpRequest, HttpResponse
from structlog.contextvars import bind_contextvars, clear_contextvars, get_contextvars

from inference.api.pending_response import when_complete
from inference.api.validation import REQUEST_ID_HEADER, usable_request_id
from inference.logs import MASKED_TEXT
from inference.open_inference.errors import is_oip_path
from tenants.base.client_address import set_current_request

log = logging.getLogger(__name__)

INFER_SUFFIX = "/infer"
INFER_PATH = f"/api/v1{INFER_SUFFIX}"
UNRESOLVED = "unresolved"
SECRET_URL_ARGUMENTS = {"key", "token"}
"""Names in URL patterns of links in e-mails: their values stay out of the log."""


class RequestLog:
    """Outermost. Sets the request id (the client's own, if valid) and logs each infer request of any API.

    Views and services bind further fields: the tenant, the model.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        started = time.perf_counter()
        clear_contextvars()
        request_id = usable_request_id(request.headers.get(REQUEST_ID_HEADER)) or uuid.uuid4().hex
        bind_contextvars(request_id=request_id)
        set_current_request(request)
        response = self.get_response(request)
        response.headers[REQUEST_ID_HEADER] = request_id
        when_complete(response, partial(_log_infer, request, started))
        return response

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: dict[str, Any]) -> None:
        """Hide secrets in the URL from the log."""
        for name in SECRET_URL_ARGUMENTS & kwargs.keys():
            bind_contextvars(**{MASKED_TEXT: str(kwargs[name])})


def _is_infer_path(path: str) -> bool:
    return path == INFER_PATH or (is_oip_path(path) and path.endswith(INFER_SUFFIX))


def _log_infer(request: HttpRequest, started: float, response: HttpResponse) -> None:
    """Log an infer request; the fields that are bound are added."""
    bound = get_contextvars()
    if not _is_infer_path(request.path) and "model" not in bound:
        return
    extra = {
        "view": request.resolver_match.view_name if request.resolver_match else UNRESOLVED,
        "status": response.status_code,
        "code": bound.get("code", "ok" if response.status_code < 400 else ""),
        "ms": round(1000 * (time.perf_counter() - started), 1),
    }
    log.info("infer", extra=extra)


def _clear_context(**_: Any) -> None:
    """Not in the middleware: streams, and Django's log of errors, come after it has returned."""
    clear_contextvars()
    set_current_request(None)


request_finished.connect(_clear_context)
