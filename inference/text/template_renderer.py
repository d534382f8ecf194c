"""Chat templates are rendered by one process beside each process of the product (`template_sandbox.py`).

A template comes with a checkpoint, and archives with new roots come from tenants. So it may take any time and
memory. A render beyond the limits costs its process, which is started again.
"""

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from multiprocessing import Pipe
from pathlib import Path
from threading import Lock
from typing import Any, Final

log = logging.getLogger(__name__)

SANDBOX: Final = Path(__file__).with_name("template_sandbox.py")
PASSED_ENVIRONMENT: Final = ("LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH")
MAX_CPU_S: Final = 0.5
"""Processor time of a render."""
MAX_WAIT_S: Final = 30.0
"""For an answer, on a machine that is so busy that MAX_CPU_S takes so long."""
MAX_MEMORY: Final = 1 << 28
"""Bytes of the process."""
MAX_TEXT: Final = 1 << 22
"""Characters that a render may write."""
END_S: Final = 1.0
"""Wait for the end of a process that is about to end."""
TURN_S: Final = 2.0
"""Wait for other renders of the same template."""
MAX_ANSWER: Final = 1 << 26
"""Bytes of an answer: MAX_TEXT as JSON is less."""
REFUSED_S: Final = 300.0
"""A template that exceeded the limits is not rendered again for as long, for chats of that size."""


class TemplateRefusal(Exception):
    """The template refuses the messages. The text is what it says."""


class TemplateFailure(Exception):
    """The template fails. The text says how."""


class TemplateLimitExceeded(TemplateFailure):
    """The template takes more processor time or memory than it may."""

    def __init__(self) -> None:
        super().__init__(f"it takes more than {MAX_CPU_S} s of processor time or {MAX_MEMORY >> 20} MiB")


class TemplateBusy(Exception):
    """Others wait for the same template, which is slow."""


@dataclass(slots=True, eq=False)
class _Template:
    """turn: of its renders one waits at a time, so that a slow template holds up the others once. Requests of
    max_bytes or more are refused until the time `refused_until`."""

    turn: Lock = field(default_factory=Lock)
    max_bytes: int = 0
    refused_until: float = 0.0

    def refuse(self, size: int) -> None:
        """Refuse requests of half this size or more: a template that is slow for long chats alone is still
        good for others', and a hostile one is refused after a few."""
        self.max_bytes, self.refused_until = size // 2, time.monotonic() + REFUSED_S

    def refuses(self, size: int) -> bool:
        return size >= self.max_bytes and time.monotonic() < self.refused_until


class TemplateRenderer:
    """The process that renders, and what is known of the templates. Thread-safe; begins anew after a fork."""

    def __init__(self) -> None:
        self._begin()
        os.register_at_fork(after_in_child=self._begin_in_child)

    def variables(self, source: str) -> frozenset[str]:
        """The variables that a template reads. Raises TemplateFailure for a source that is no template."""
        return frozenset(self._answer(source, None)["variables"])

    def render(self, source: str, values: Mapping[str, Any], now: datetime) -> str:
        """The text that the template writes with these variables, which JSON can hold. now: the date for
        `strftime_now`. Raises TemplateRefusal, TemplateFailure or TemplateBusy."""
        text: str = self._answer(source, [now.isoformat(), values])["text"]
        return text

    def _answer(self, source: str, request: object) -> dict[str, Any]:
        written, data = (
            text.encode(errors="surrogatepass") for text in (source, json.dumps(request, ensure_ascii=False))
        )
        template = self._templates[sha256(written).digest()]
        if not template.turn.acquire(timeout=TURN_S):
            raise TemplateBusy("it is slow, and others wait for it")
        try:
            if template.refuses(len(data)):
                raise TemplateLimitExceeded
            try:
                with self._lock:
                    answer: dict[str, Any] = json.loads(self._exchange(written, data))
            except TemplateLimitExceeded:
                template.refuse(len(data))
                raise
        finally:
            template.turn.release()
        if "refused" in answer:
            raise TemplateRefusal(answer["refused"])
        if "failed" in answer:
            raise TemplateFailure(answer["failed"])
        return answer

    def _exchange(self, *request: bytes) -> bytes:
        """The answer to the request. If the process ends in between, a new one gets it: the old one may have
        been ended by others, or be out of memory through others."""
        for is_new in (self._process is None, True):
            if self._process is None:
                self._process = _Process()
            try:
                return self._process.exchange(request)
            except OSError:
                code = self._process.end()
                self._process = None
                log.warning("The process that renders chat templates ended with code %d", code)
                if is_new or code == -signal.SIGPROF:
                    break
        raise TemplateLimitExceeded

    def _begin(self) -> None:
        self._lock = Lock()
        self._process: _Process | None = None
        self._templates: defaultdict[bytes, _Template] = defaultdict(_Template)

    def _begin_in_child(self) -> None:
        if self._process is not None:
            self._process.forget()
        self._begin()


class _Process:
    """A process that renders. Raises OSError if it cannot be started."""

    def __init__(self) -> None:
        self._connection, theirs = Pipe()
        limits = (MAX_CPU_S, MAX_MEMORY, MAX_TEXT)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-W", "ignore", str(SANDBOX), *map(str, limits)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env={name: os.environ[name] for name in PASSED_ENVIRONMENT if name in os.environ},
            )
        self.exchange(())  # it says when it is ready

    def exchange(self, request: Iterable[bytes]) -> bytes:
        """The answer to the request. Raises OSError if there is none."""
        for message in request:
            self._connection.send_bytes(message)
        if not self._connection.poll(MAX_WAIT_S):
            raise TimeoutError
        try:
            return self._connection.recv_bytes(MAX_ANSWER)
        except EOFError as error:
            raise ConnectionResetError from error

    def end(self) -> int:
        """End the process. Returns its exit code, negative for a signal."""
        self._connection.close()
        try:
            return self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def forget(self) -> None:
        """Leave the process to the one that this one was forked from."""
        self._connection.close()
        self._process.returncode = 0


TEMPLATES: Final = TemplateRenderer()
"""The renderer of this process of the product."""
