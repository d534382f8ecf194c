"""One launcher at a time per HMI_HOME."""

import fcntl
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from hmi_site.embedded.process import ChildError


class HomeLock:
    """Held for as long as the launcher lives, however it ends. Says who holds it, and at which URL."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._file = home / "up.lock"
        self._stream: TextIO | None = None

    def __enter__(self) -> Self:
        self._home.mkdir(parents=True, exist_ok=True)
        stream = self._file.open("a+", encoding="utf-8")
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.close()
            raise ChildError(self._refusal()) from None
        self._stream = stream
        self.tell(url="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stream is not None:
            self._stream.truncate(0)
            self._stream.close()

    def tell(self, *, url: str) -> None:
        """Write down where the site is."""
        if self._stream is not None:
            self._stream.truncate(0)
            json.dump({"pid": os.getpid(), "url": url}, self._stream)
            self._stream.flush()

    def _refusal(self) -> str:
        try:
            holder = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            holder = {}
        where = f" at {holder['url']}" if holder.get("url") else ""
        return (
            f"HMI already runs for {self._home}{where} (process {holder.get('pid', 'unknown')}).\n"
            "Stop it first, or set HMI_HOME to another folder for a second copy."
        )
