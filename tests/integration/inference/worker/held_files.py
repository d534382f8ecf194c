"""Files that take as long to read as a test wants."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.processes import wait_until


class HeldFile:
    """In place of the file stands a pipe: who opens it waits, as for a disk that answers no more."""

    def __init__(self, path: Path) -> None:
        self._path, self._content = path, path.read_bytes()
        path.unlink()
        os.mkfifo(path)

    @contextmanager
    def being_read(self) -> Iterator[None]:
        """Once somebody reads it, who goes on waiting while this is entered."""
        pipe = self._opened()
        try:
            yield
        finally:
            os.close(pipe)

    def put_back(self) -> None:
        """The file is there for whoever opens it from now on."""
        restored = self._path.parents[1] / "restored"
        restored.write_bytes(self._content)
        restored.replace(self._path)

    def release(self) -> None:
        """The same, and the one who waits reads it too; is there none yet, then as soon as there is one."""
        pipe = self._opened()
        self.put_back()
        with os.fdopen(pipe, "wb") as reader:
            reader.write(self._content)

    def _opened(self) -> int:
        """The pipe, for writing, as soon as somebody reads it. Fails if nobody does in time."""
        pipes: list[int] = []

        def is_read() -> bool:
            try:
                pipes.append(os.open(self._path, os.O_WRONLY | os.O_NONBLOCK))
            except OSError as error:
                if error.errno != errno.ENXIO:  # nobody has it open
                    raise
            return bool(pipes)

        wait_until(is_read)
        os.set_blocking(pipes[0], True)
        return pipes[0]
