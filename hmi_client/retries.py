"""Retries of failed requests, with exponential backoff and the server's ``Retry-After``."""

import json
import random
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus

import httpx

from hmi_client.errors import ConnectionFailed, HmiError, api_error
from hmi_client.flow import ApiRequest, Flow, FlowRun, Sleep, T, send

SHOULD_RETRY_HEADER = "x-should-retry"
RETRIED_STATUSES = {HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE}
"""Statuses that are retried although the response has neither ``x-should-retry`` nor ``Retry-After``."""


@dataclass(frozen=True, slots=True)
class Retries:
    """How often and after which delays a request is retried.

    The delay doubles from ``initial_delay_s`` up to ``max_delay_s``, unless the server names one. If the
    server asks for more than ``max_delay_s``, the error is raised at once.
    """

    max_retries: int = 4
    initial_delay_s: float = 0.5
    max_delay_s: float = 60.0

    def delay_s(self, attempt: int) -> float:
        """The backoff after an attempt, with jitter so that clients do not retry in step."""
        jitter = random.uniform(0.5, 1.0)  # noqa: S311
        return min(self.initial_delay_s * 2.0**attempt, self.max_delay_s) * jitter


def with_retries(flow: Flow[T], retries: Retries) -> Flow[T]:
    """The same flow, whose requests are retried and whose failures are typed errors."""
    run = FlowRun(flow)
    try:
        for step in run:
            if not isinstance(step, ApiRequest):
                run.response = yield step
                continue
            try:
                run.response = yield from _send_with_retries(step, retries)
            except HmiError as error:
                run.error = error
    except (json.JSONDecodeError, UnicodeDecodeError):
        message = "The response is not JSON. Does the server's address lead to HMI?"
        raise ConnectionFailed(message) from None
    return run.result


def _send_with_retries(request: ApiRequest, retries: Retries) -> Flow[httpx.Response]:
    for attempt in range(retries.max_retries + 1):
        is_last = attempt == retries.max_retries
        try:
            response = yield from send(request)
        except httpx.LocalProtocolError:
            # Its message quotes headers.
            raise HmiError("The request is not valid HTTP: check its headers and its files.") from None
        except httpx.RequestError as error:
            never_sent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
            if is_last or not (request.idempotent or never_sent):
                reason = str(error).strip().rstrip(".") or type(error).__name__
                raise ConnectionFailed(f"The server did not answer: {reason}.") from error
            yield Sleep(retries.delay_s(attempt))
            continue
        if response.is_success:
            return response
        asked_delay_s = retry_after(response)
        delay_s = retries.delay_s(attempt) if asked_delay_s is None else asked_delay_s
        if is_last or delay_s > retries.max_delay_s or not should_retry(response):
            raise api_error(response, asked_delay_s)
        yield Sleep(delay_s)
    raise AssertionError("the last attempt returns or raises")


def should_retry(response: httpx.Response) -> bool:
    """The value of ``x-should-retry``, or else whether there is a ``Retry-After`` or a retried status."""
    header = response.headers.get(SHOULD_RETRY_HEADER)
    if header in ("true", "false"):
        return bool(header == "true")
    return retry_after(response) is not None or response.status_code in RETRIED_STATUSES


def retry_after(response: httpx.Response) -> float | None:
    """The ``Retry-After`` header in seconds, from a number or a date. None without it."""
    value = response.headers.get("Retry-After", "").strip()
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        until = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (until - datetime.now(UTC)).total_seconds())
