"""Chat templates are rendered by one process beside each process of the product (`template_sandbox.py`).

A template comes with a checkpoint, so nobody vouches for it. One that exceeds the limits costs the process,
which is started again.
"""

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from multiprocessing import Pipe
from pathlib import Path
from threading import Lock
from typing import Any, Final

from inference.errors import HplmError

log = logging.getLogger(__name__)

SANDBOX: Final = Path(__file__).with_name("template_sandbox.py")
PASSED_ENVIRONMENT: Final = ("LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH")
MAX_CPU_S: Final = 0.5
"""Processor time of a render."""
MAX_WAIT_S: Final = 10.0
"""For an answer, on a machine so busy that MAX_CPU_S takes so long."""
MAX_MEMORY: Final = 1 << 28
"""Bytes of the process."""
MAX_TEXT: Final = 1 << 22
"""Characters that a render may write."""
MAX_ANSWER: Final = 1 << 26
"""Bytes of an answer: MAX_TEXT as JSON is less."""
TURN_S: Final = 2.0
"""Wait for other renders of the same template."""
REFUSED_S: Final = 300.0
"""For so long a template that exceeded the limits is not rendered for chats of that size."""
EXCEEDED: Final = f"it takes more than {MAX_CPU_S} s of processor time or {MAX_MEMORY >> 20} MiB of memory"


class TemplateRefusal(Exception):
    """The template refuses the messages. The text is what it says."""


class TemplateFailure(Exception):
    """The template fails, or exceeds the limits. The text says how."""


@dataclass(slots=True, eq=False)
class _Template:
    """turn: one of its renders waits at a time, so that a slow template holds up the others once. Requests of
    max_bytes are refused until refused_until: half of those that exceeded the limits, as a template that is
    slow for one long chat is good for others."""

    turn: Lock = field(default_factory=Lock)
    max_bytes: int = 0
    refused_until: float = 0.0


class TemplateRenderer:
    """Has templates rendered. Thread-safe; a forked process begins anew."""

    _process: "_Process | None"

    def __init__(self) -> None:
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def variables(self, source: str) -> frozenset[str]:
        """The variables that the template reads. Raises TemplateFailure for a source that is no template."""
        return frozenset(self._answer(source, None)["variables"])

    def render(self, source: str, values: Mapping[str, Any], now: datetime) -> str:
        """The text that the template writes with these variables, which JSON can hold. now: the date for
        `strftime_now`. Raises TemplateRefusal, TemplateFailure, and HplmError(queue_full) while others wait
        for the same slow template."""
        text: str = self._answer(source, [now.isoformat(), values])["text"]
        return text

    def _answer(self, source: str, request: object) -> dict[str, Any]:
        data = json.dumps(request, ensure_ascii=False).encode(errors="surrogatepass")
        written = source.encode(errors="surrogatepass")
        template = self._templates[sha256(written).digest()]
        if not template.turn.acquire(timeout=TURN_S):
            message = "the chat template of this model is slow, and others wait for it: try again later"
            raise HplmError("queue_full", message)
        try:
            if len(data) >= template.max_bytes and time.monotonic() < template.refused_until:
                raise TemplateFailure(EXCEEDED)
            with self._lock:
                content = self._exchange(written, data)
            if content is None:
                template.max_bytes, template.refused_until = len(data) // 2, time.monotonic() + REFUSED_S
                raise TemplateFailure(EXCEEDED)
        finally:
            template.turn.release()
        answer: dict[str, Any] = json.loads(content)
        if "refused" in answer:
            raise TemplateRefusal(answer["refused"])
        if "failed" in answer:
            raise TemplateFailure(answer["failed"])
        return answer

    def _exchange(self, source: bytes, request: bytes) -> bytes | None:
        """The answer to the request; None if it exceeds the limits. If the process ends in between, a new one
        gets it: the old one may have been killed, or be out of memory through others."""
        for is_new in (self._process is None, True):
            self._process = self._process or _Process()
            try:
                return self._process.exchange(source, request)
            except OSError:
                code = self._process.end()
                self._process = None
                log.warning("The process that renders chat templates ended with code %d", code)
                if is_new or code == -signal.SIGPROF:
                    break
        return None

    def _begin(self) -> None:
        self._lock = Lock()
        self._process = None
        self._templates: defaultdict[bytes, _Template] = defaultdict(_Template)


class _Process:
    """A process that renders. Raises OSError if it cannot be started."""

    def __init__(self) -> None:
        self._connection, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-W",
                    "ignore",
                    SANDBOX,
                    str(MAX_CPU_S),
                    str(MAX_MEMORY),
                    str(MAX_TEXT),
                ],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env={name: os.environ[name] for name in PASSED_ENVIRONMENT if name in os.environ},
            )
        self.exchange()  # it says when it is ready

    def exchange(self, *messages: bytes) -> bytes:
        """The answer to a request. Raises OSError if there is none."""
        for message in messages:
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
        self._process.kill()
        return self._process.wait()


TEMPLATES: Final = TemplateRenderer()
"""The renderer of this process of the product."""
