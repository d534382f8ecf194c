"""Retries of failed requests, with exponential backoff and the server's ``Retry-After``."""

import random
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus

import httpx

from hmi_client.errors import ConnectionFailed, HmiError, api_error

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


def delay_before_retry(
    outcome: httpx.Response | httpx.RequestError, retries: Retries, attempt: int, *, idempotent: bool
) -> float | None:
    """The seconds until a request is sent again, None after a success.

    ``attempt`` counts from 0. Raises the typed error of a failure that is not retried: the last one, one that
    another attempt does not change, and a broken connection if the request is not ``idempotent`` and may have
    arrived.
    """
    is_last = attempt == retries.max_retries
    if isinstance(outcome, httpx.LocalProtocolError):
        # Its message quotes headers.
        raise HmiError("The request is not valid HTTP: check its headers and its files.") from None
    if isinstance(outcome, httpx.RequestError):
        never_sent = isinstance(outcome, httpx.ConnectError | httpx.ConnectTimeout)
        if is_last or not (idempotent or never_sent):
            reason = str(outcome).strip().rstrip(".") or type(outcome).__name__
            raise ConnectionFailed(f"The server did not answer: {reason}.") from outcome
        return retries.delay_s(attempt)
    if outcome.is_success:
        return None
    asked_delay_s = retry_after(outcome)
    delay_s = retries.delay_s(attempt) if asked_delay_s is None else asked_delay_s
    if is_last or delay_s > retries.max_delay_s or not should_retry(outcome):
        raise api_error(outcome, asked_delay_s)
    return delay_s


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
