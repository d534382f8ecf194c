"""Completions as server-sent events, from the task of an event loop: an open stream holds no thread and no
database connection."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from typing import Final

from django.http import StreamingHttpResponse

from inference.openai.completion_run import CompletionRun
from inference.openai.completions import HEARTBEAT, ChoiceFormat, ChunkStream, Heading
from inference.openai.generation_requests import GenerationCall
from tenants.base.errors import INTERNAL_MESSAGE, ErrorCode, HmiError

log = logging.getLogger(__name__)

HEARTBEAT_S: Final = 10.0
"""A comment is sent after so long a silence. Proxies close silent connections."""


def stream_response(
    run: CompletionRun, style: ChoiceFormat, heading: Heading, call: GenerationCall
) -> StreamingHttpResponse:
    """The response that streams a run that was submitted. Closing it cancels what has not ended."""
    chunks = ChunkStream(
        style,
        heading,
        include_usage=call.include_usage,
        usage_so_far=(lambda: run.usage) if call.includes_usage_so_far else None,
    )
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingHttpResponse(CompletionEvents(run, chunks), "text/event-stream", headers=headers)


class CompletionEvents:
    """The events of a run, for `StreamingHttpResponse`, which closes it at the end, or earlier if the client
    goes away."""

    def __init__(self, run: CompletionRun, chunks: ChunkStream, *, heartbeat_s: float = HEARTBEAT_S) -> None:
        self._run, self._chunks, self._heartbeat_s = run, chunks, heartbeat_s

    def close(self) -> None:
        """Cancel what has not ended, and count the request."""
        self._run.close()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The events. An error ends them as its own event, and what is still being generated at once."""
        try:
            if opening := self._chunks.opening(len(self._run.prepared.sampling)):
                yield opening
            while not self._run.ended:
                yield await self._next()
            yield self._chunks.end(self._run.usage)
        except HmiError as error:
            self._run.fail(error)
            await asyncio.to_thread(self._run.close)
            yield self._chunks.error(error)
        except Exception as error:
            log.exception("a stream of completions failed")
            self._run.fail(error)
            message = INTERNAL_MESSAGE
            yield self._chunks.error(HmiError(ErrorCode.INTERNAL, message))

    async def _next(self) -> bytes:
        """The next chunks, or a heartbeat after a silence. Raises HmiError, also if the queue has lost a
        completion."""
        run, silent_until, silent = self._run, time.monotonic() + self._heartbeat_s, False
        while not silent:
            if not run.seconds_to_check:
                await asyncio.to_thread(run.check_caller)
            left = silent_until - time.monotonic()
            silent = left <= 0
            if silent:
                deltas = await asyncio.to_thread(run.read)
            else:
                wait_s = min(left, run.seconds_left, run.seconds_to_check)
                deltas = run.accept(await run.arrivals.take_async(wait_s))
            if cut := [delta.index for delta in deltas if run.is_cut(delta)]:
                await asyncio.to_thread(run.cancel, cut)
            if run.owes:
                await asyncio.to_thread(run.charge)
            if deltas:
                return b"".join(map(self._chunks.chunk, deltas))
        return HEARTBEAT
