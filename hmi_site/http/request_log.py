"""Every request has an id: its answer names it, and so does every line of the log that belongs to it."""

import logging
import time
import uuid
from collections.abc import Callable
from typing import Any

from django.core.signals import request_finished
from django.http import HttpRequest, HttpResponse
from structlog.contextvars import bind_contextvars, clear_contextvars, get_contextvars

from inference.api.validation import REQUEST_ID_HEADER, usable_request_id
from inference.logs import TO_HIDE
from inference.open_inference.bodies import speaks_oip
from tenants.base.client_address import answering

log = logging.getLogger(__name__)

INFER = "/infer"
INFER_PATH = f"/api/v1{INFER}"
UNRESOLVED = "unresolved"
SECRET_PARTS = {"key", "token"}
"""Of addresses, as the URL patterns name them: links of e-mails."""


class RequestLog:
    """Outermost. Gives the request its id, the caller's own if it has one, and logs one line for each infer
    request, however it was asked and whatever came of it. Views and services bind what they learn (the
    tenant, the model) on the way."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        begun = time.perf_counter()
        clear_contextvars()
        request_id = usable_request_id(request.headers.get(REQUEST_ID_HEADER)) or uuid.uuid4().hex
        bind_contextvars(request_id=request_id)
        answering(request)
        response = self.get_response(request)
        response.headers[REQUEST_ID_HEADER] = request_id
        if _asks_a_model(request.path) or "model" in get_contextvars():
            view = request.resolver_match.view_name if request.resolver_match else UNRESOLVED
            code = get_contextvars().get("code", "ok" if response.status_code < 400 else "")
            log_infer(view, response.status_code, code, time.perf_counter() - begun)
        return response

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: dict[str, Any]) -> None:
        """What opens something by standing in the address is in no line of the log."""
        for name in SECRET_PARTS & kwargs.keys():
            bind_contextvars(**{TO_HIDE: str(kwargs[name])})


def _asks_a_model(path: str) -> bool:
    return path == INFER_PATH or (speaks_oip(path) and path.endswith(INFER))


def log_infer(view: str, status: int, code: str, seconds: float) -> None:
    """The line about an infer request, with what is bound of it."""
    log.info("infer", extra={"view": view, "status": status, "code": code, "ms": round(1000 * seconds, 1)})


def _forget(**_: Any) -> None:
    """Only here: a stream goes on, and Django logs refusals, after the middleware has returned."""
    clear_contextvars()
    answering(None)


request_finished.connect(_forget)
