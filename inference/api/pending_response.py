"""Responses that wait on the event loop: the view sends off its work and returns, so that no thread waits for
a reply of the workers.

The web server (`hmi_site.http.wsgi_threads`) awaits the reply, and has the response finished in a thread.
Middleware handles a pending response before its status and content are known. What needs them is called by
`when_complete`.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any, Final, Generic, TypeVar

from django.core.handlers.exception import response_for_exception
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from tenants.base.errors import ErrorCode, HmiError

log = logging.getLogger(__name__)

ON_EVENT_LOOP: Final = "hmi.on_event_loop"
"""WSGI variable of a server that awaits pending responses, and sends asynchronous streams."""

Reply = TypeVar("Reply")
Outcome = Callable[[], Reply]
"""Returns what was awaited, or raises the error that it ended with."""


class PendingResponse(HttpResponseBase, Generic[Reply]):
    """``wait`` runs on the event loop, then ``finish`` in a thread; it gets the outcome and returns the
    response. Both run in the context of the view: its tenant scope and its log fields. ``cancel`` is called
    if the client disconnects before the reply; any thread may call it."""

    streaming = True
    """For middleware: there is no content to look at."""

    def __init__(
        self,
        request: HttpRequest,
        wait: Callable[[], Coroutine[Any, Any, Reply]],
        finish: Callable[[Outcome[Reply]], HttpResponse],
        cancel: Callable[[], object],
    ) -> None:
        super().__init__()
        del self.headers["Content-Type"]
        self.wait, self.cancel = wait, cancel
        self.context = copy_context()
        self._request, self._finish = request, finish
        self._callbacks: list[Callable[[HttpResponse], object]] = []

    def when_complete(self, callback: Callable[[HttpResponse], object]) -> None:
        """Call ``callback`` with the finished response, in the context of the view."""
        self._callbacks.append(callback)

    def complete(self, waiting: "asyncio.Future[Reply]") -> HttpResponse:
        """The finished response, with the headers and cookies that middleware has set on this one.
        ``waiting`` is the task of `wait`, which is done."""
        return self.context.run(self._complete, waiting)

    def _complete(self, waiting: "asyncio.Future[Reply]") -> HttpResponse:
        response = HttpResponse(status=500)  # of which callbacks hear if there is no other
        try:
            try:
                response = self._finish(lambda: _outcome(waiting))
            except Exception as error:  # noqa: BLE001 - Django logs it
                response = response_for_exception(self._request, error)
            for name, value in self.items():
                response.headers[name] = value
            response.cookies.update(self.cookies)
            response.headers["Content-Length"] = str(len(response.content))
        finally:
            self._call_back(response)
        return response

    def _call_back(self, response: HttpResponse) -> None:
        for callback in self._callbacks:
            try:
                callback(response)
            except Exception:
                log.exception("what follows a response failed")


def respond_later(
    request: HttpRequest,
    wait: Callable[[], Coroutine[Any, Any, Reply]],
    finish: Callable[[Outcome[Reply]], HttpResponse],
    *,
    cancel: Callable[[], object],
) -> HttpResponseBase:
    """A pending response; the finished one where no event loop waits for it, as in Django's test client."""
    if ON_EVENT_LOOP in request.META:
        return PendingResponse(request, wait, finish, cancel)
    waiting = asyncio.run(_finished(wait))
    return finish(lambda: _outcome(waiting))


def when_complete(response: HttpResponseBase, callback: Callable[[Any], object]) -> None:
    """Call ``callback`` with the response: at once, or when it is no longer pending."""
    if isinstance(response, PendingResponse):
        response.when_complete(callback)
    else:
        callback(response)


async def _finished(wait: Callable[[], Coroutine[Any, Any, Reply]]) -> "asyncio.Future[Reply]":
    waiting = asyncio.create_task(wait())
    await asyncio.wait([waiting])
    return waiting


def _outcome(waiting: "asyncio.Future[Reply]") -> Reply:
    if waiting.cancelled():
        raise HmiError(ErrorCode.CANCELLED, "The request was canceled.")
    return waiting.result()
