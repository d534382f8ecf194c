"""A lock that allows one launcher per HMI_HOME."""

import json
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from filelock import FileLock, Timeout

from hmi_site.embedded.process import ChildError


class HomeLock:
    """A file lock that the kernel releases with the process. The file has the holder's process id and URL."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._file = home / "up.lock"
        self._lock = FileLock(self._file, mode=0o600, thread_local=False)

    def __enter__(self) -> Self:
        self._home.mkdir(parents=True, exist_ok=True)
        try:
            self._lock.acquire(blocking=False)
        except Timeout:
            raise ChildError(self._refusal()) from None
        self.write_url("")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock.is_locked:
            self._file.write_text("", encoding="utf-8")
            self._lock.release()

    def write_url(self, url: str) -> None:
        """Save the site's URL."""
        self._file.write_text(json.dumps({"pid": os.getpid(), "url": url}), encoding="utf-8")

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
