"""Answers of the short way, which are to be those of the view: body, headers, log and metrics."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Final, cast

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.security import SecurityMiddleware
from django.utils.cache import patch_vary_headers
from rest_framework.renderers import JSONRenderer

from hmi_site.http.errors import error_headers
from hmi_site.http.middleware import SecurityHeaders
from hmi_site.http.request_log import INFER_PATH, log_infer
from hmi_site.metrics.requests import count_answer
from inference.api.answer_headers import answer_headers
from inference.api.errors import rendered
from inference.api.rates.headers import rate_headers
from inference.api.rates.local_buckets import Limit
from inference.api.validation import REQUEST_ID_HEADER
from inference.api.views import InferView
from tenants.base.errors import HmiError

VIEW: Final = "inference_api:infer"
"""The name under which metrics and logs know what answers here."""


@dataclass(slots=True)
class DirectAnswer:
    """What a call is told, in the making; the time runs from its making. ``limits`` are shown with it."""

    request_id: str
    limits: Sequence[Limit] = ()
    status: int = 200
    content: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    _code: str = "ok"
    _begun: float = field(default_factory=time.perf_counter)

    def result(self, value: dict[str, Any]) -> None:
        """It is this JSON value."""
        self.content, self.headers = JSONRenderer().render(value), answer_headers(value)

    def refusal(self, error: HmiError) -> None:
        """It is an error."""
        self._code, self.headers = str(error.code), error_headers(error)
        self.status, body = rendered(error, INFER_PATH)
        self.content = JSONRenderer().render(body)

    def messages(self) -> list[dict[str, Any]]:
        """For ASGI; from here on the call counts as answered."""
        common = common_headers(settings.HMI_HTTPS, settings.HMI_STAFF_TOTP)
        headers = {**common, **rate_headers(self.limits), **self.headers}
        headers[REQUEST_ID_HEADER], headers["Content-Length"] = self.request_id, str(len(self.content))
        seconds = time.perf_counter() - self._begun
        count_answer(VIEW, self.status, seconds)
        log_infer(VIEW, self.status, self._code, seconds)
        encoded = [
            (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()
        ]
        return [
            {"type": "http.response.start", "status": self.status, "headers": encoded},
            {"type": "http.response.body", "body": self.content},
        ]


def _given(response: HttpResponse, _: HttpRequest) -> HttpResponse:
    return response


@lru_cache(4)
def common_headers(secure: bool, staff_by_factor: bool) -> dict[str, str]:
    """Those that the middleware and the view put on every answer; ``secure`` where it goes by HTTPS,
    ``staff_by_factor`` where the session is asked for staff without a second factor."""
    request = HttpRequest()
    request.method, request.path = "POST", INFER_PATH
    if secure and settings.SECURE_PROXY_SSL_HEADER:
        name, value = settings.SECURE_PROXY_SSL_HEADER
        request.META[name] = value
    response = HttpResponse(
        content_type=JSONRenderer.media_type, headers=InferView().default_response_headers
    )
    for middleware in (SecurityMiddleware, XFrameOptionsMiddleware, SecurityHeaders):
        response = cast("HttpResponse", middleware(partial(_given, response))(request))
    if staff_by_factor:
        patch_vary_headers(response, ["Cookie"])
    return dict(response.headers)
