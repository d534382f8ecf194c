"""Completions as server-sent events, from the task of an event loop: an open stream holds no thread and no
database connection."""

import asyncio
import logging
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
                deltas = await self._run.next_deltas(self._heartbeat_s)
                yield b"".join(map(self._chunks.chunk, deltas)) or HEARTBEAT
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
