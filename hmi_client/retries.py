"""When a call is sent again, and after how long: as the server's headers say."""

import random
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus

import httpx

from hmi_client.errors import ConnectionFailed, HmiError, api_error
from hmi_client.flow import Call, Flow, FlowRun, Pause, Step, T

SHOULD = "x-should-retry"
PASSING = {HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE}
"""Statuses that are worth another try even if nothing says when."""


@dataclass(frozen=True, slots=True)
class Retries:
    """``most`` further attempts. The pauses between them double from ``first_s``, unless the server names
    one; who is told to wait for longer than ``longest_s`` gets the error at once."""

    most: int = 4
    first_s: float = 0.5
    longest_s: float = 60.0

    def pause(self, attempt: int) -> float:
        """Seconds before the next attempt, where the server says nothing: spread, so that clients do not
        come back all at once."""
        return min(self.first_s * 2.0**attempt, self.longest_s) * random.uniform(0.5, 1.0)  # noqa: S311


def with_retries(flow: Flow[T], retries: Retries) -> Flow[T]:
    """The same flow; its calls are sent again where that is sensible, or end in a typed error."""
    course = FlowRun(flow)
    for step in course:
        if not isinstance(step, Call):
            course.answer = yield step
            continue
        try:
            course.answer = yield from _answered(step, retries)
        except HmiError as error:
            course.failure = error
    return course.result


def _answered(call: Call, retries: Retries) -> Flow[httpx.Response]:
    for attempt in range(retries.most + 1):
        try:
            sent: Step = call
            response: httpx.Response = yield sent
        except httpx.TransportError as error:
            never_sent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
            if attempt == retries.most or not (call.repeatable or never_sent):
                raise ConnectionFailed(f"The server did not answer: {_in_words(error)}.") from error
            yield Pause(retries.pause(attempt))
            continue
        if response.is_success:
            return response
        told = retry_after(response)
        wait = retries.pause(attempt) if told is None else told
        if attempt == retries.most or wait > retries.longest_s or not worth_another_try(response, told):
            raise api_error(response, told)
        yield Pause(wait)
    raise AssertionError("the last attempt returns or raises")


def worth_another_try(response: httpx.Response, told: float | None) -> bool:
    """What ``x-should-retry`` says; without it, whether ``Retry-After`` does, or the status alone."""
    should = response.headers.get(SHOULD)
    if should in ("true", "false"):
        return bool(should == "true")
    return told is not None or response.status_code in PASSING


def retry_after(response: httpx.Response) -> float | None:
    """Seconds to wait, which the header has as a number or as a date; None without it."""
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


def _in_words(error: httpx.TransportError) -> str:
    return str(error).strip().rstrip(".") or type(error).__name__
