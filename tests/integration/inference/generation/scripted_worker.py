"""Plays an inference worker for generative models: answers prompts with a text that the test chooses."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from redis import Redis

from inference.generation.requests import FinishReason
from inference.queueing.connection import connect
from inference.queueing.consumer import Entry, RequestConsumer
from inference.queueing.heartbeat import Heartbeat
from inference.queueing.messages import CompletionEnd, GeneratedToken, InferReply, InferRequest, ReplyError
from inference.queueing.status import WorkerStatus
from inference.queueing.token_stream import Continuation

NAME = "scripted"
BUSY_MS = 2.0
"""Of each token."""


@dataclass
class Script:
    """What every prompt is answered with. hold_after: so many tokens are sent, and the rest when `go_on` is
    set; None: all at once. error: ends it in place of a reason."""

    tokens: Sequence[int]
    hold_after: int | None = None
    error: ReplyError | None = None
    go_on: threading.Event = field(default_factory=threading.Event)


class ScriptedWorker:
    """A thread that takes the requests of one root, as a worker does. Use it as a context manager."""

    def __init__(self, redis_url: str, root: str) -> None:
        self.script = Script([])
        self.received: list[InferRequest] = []
        self.cancelled: list[str] = []
        """The ids of requests that were cancelled while they were held."""
        self.paused = threading.Event()
        self._redis: Redis = connect(redis_url)
        status = WorkerStatus(NAME, "ready", "cpu", "float32", roots=("smol",), root_digests=(root,))
        self._heartbeat = Heartbeat(self._redis, NAME, status.encode, roots=lambda: [root])
        self._root = root
        self._stop = threading.Event()
        self._open: dict[Entry, int] = {}
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "ScriptedWorker":
        self._heartbeat.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._heartbeat.__exit__(None, None, None)

    def says(self, *tokens: int, hold_after: int | None = None, error: ReplyError | None = None) -> Script:
        """Answer with these tokens from now on."""
        self.script = Script(tokens, hold_after, error)
        self.received, self.cancelled = [], []
        self.paused.clear()
        return self.script

    def _run(self) -> None:
        consumer = RequestConsumer(self._redis, NAME)
        consumer.follow([self._root])
        while not self._stop.is_set():
            if not self.paused.is_set():
                for entry in [*consumer.read(8, 10), *consumer.read_background()]:
                    self.received.append(entry.request)
                    self._open[entry] = 0
            answered = consumer.answered()
            for entry in [entry for entry in self._open if entry.address in answered]:
                self.cancelled.append(entry.request.id)
                del self._open[entry]
            for entry in list(self._open):
                self._continue(consumer, entry)

    def _continue(self, consumer: RequestConsumer, entry: Entry) -> None:
        script, sent = self.script, self._open[entry]
        sampling = entry.request.generate
        assert sampling is not None
        tokens = list(script.tokens[: sampling.max_tokens])
        held = script.hold_after is not None and not script.go_on.is_set()
        until = min(len(tokens), script.hold_after or 0) if held else len(tokens)
        reply = None if held else _end(entry.request, tokens, script.error)
        if until == sent and reply is None:
            return
        wants_logprobs = sampling.logprobs is not None
        new = [
            GeneratedToken(
                index=index,
                token=token,
                logprob=-0.5 if wants_logprobs else None,
                alternatives=((token, -0.5),) * (sampling.logprobs or 0),
                number_format="" if index else "float32",
                busy_ms=BUSY_MS,
            )
            for index, token in enumerate(tokens[:until])
            if index >= sent
        ]
        consumer.append_all([Continuation(entry.address, entry.request, new, reply)])
        self._open[entry] = until
        if reply is not None:
            del self._open[entry]


def _end(request: InferRequest, tokens: list[int], error: ReplyError | None) -> InferReply:
    if error is not None:
        return InferReply.failure(request.id, request.model, error.code, error.message)
    assert request.generate is not None
    stopped = bool(tokens) and tokens[-1] in request.generate.stop_tokens
    end = CompletionEnd(FinishReason.STOP if stopped else FinishReason.LENGTH, len(tokens))
    return InferReply(id=request.id, ok=True, model=request.model, completion=end)
