"""Request ids, in the response and in every log line of the request; one log line for each infer request."""

import logging
import time
import uuid
from collections.abc import Callable
from typing import Any

from django.core.signals import request_finished
from django.http import HttpRequest, HttpResponse
from structlog.contextvars import bind_contextvars, clear_contextvars, get_contextvars

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
        if _is_infer_path(request.path) or "model" in get_contextvars():
            view = request.resolver_match.view_name if request.resolver_match else UNRESOLVED
            code = get_contextvars().get("code", "ok" if response.status_code < 400 else "")
            log_infer(view, response.status_code, code, time.perf_counter() - started)
        return response

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: dict[str, Any]) -> None:
        """Hide secrets in the URL from the log."""
        for name in SECRET_URL_ARGUMENTS & kwargs.keys():
            bind_contextvars(**{MASKED_TEXT: str(kwargs[name])})


def _is_infer_path(path: str) -> bool:
    return path == INFER_PATH or (is_oip_path(path) and path.endswith(INFER_SUFFIX))


def log_infer(view: str, status: int, code: str, seconds: float) -> None:
    """Log one infer request; the fields that are bound are added."""
    log.info("infer", extra={"view": view, "status": status, "code": code, "ms": round(1000 * seconds, 1)})


def _clear_context(**_: Any) -> None:
    """Not in the middleware: streams, and Django's log of errors, come after it has returned."""
    clear_contextvars()
    set_current_request(None)


request_finished.connect(_clear_context)
