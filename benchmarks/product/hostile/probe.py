"""Asks whether the web server is alive, over and over, and how long each answer takes. ``python -m
benchmarks.product.hostile.probe PORT`` prints a line for each answer: when it was asked for, and the seconds
until it came. It is a process of its own, so that nothing of the benchmark delays it.
"""

import socket
import subprocess
import sys
import threading
import time
from types import TracebackType
from typing import Final, Self

from benchmarks.harness import ROOT

EVERY_S: Final = 0.01
"""Between an answer and the next question."""
TIMEOUT_S: Final = 60.0
REQUEST: Final = b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


class Probe:
    """Asks as long as the block lasts."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._answers: list[tuple[float, float]] = []

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "benchmarks.product.hostile.probe", str(self._port)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        threading.Thread(target=self._read, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    def longest_pause_s(self, begun: float, ended: float) -> float:
        """The longest time that an answer took that was asked for or came between these moments of
        ``time.monotonic()``. An answer that is still missing counts with the time until now."""
        answers = list(self._answers)
        among = [took for asked, took in answers if asked <= ended and asked + took >= begun]
        last = sum(answers[-1]) if answers else begun
        missing = time.monotonic() - last if last < ended else 0.0
        return max([*among, missing])

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            asked, took = line.split()
            self._answers.append((float(asked), float(took)))


def ask(port: int) -> bool:
    """Whether an answer came, on a connection of its own."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as connection:
            connection.sendall(REQUEST)
            return connection.recv(64).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


def main() -> None:
    """Ask until killed. A question without an answer is asked again: its time goes on."""
    while True:
        asked = time.monotonic()
        while not ask(int(sys.argv[1])):
            time.sleep(EVERY_S)
        print(asked, time.monotonic() - asked, flush=True)
        time.sleep(EVERY_S)


if __name__ == "__main__":
    main()
