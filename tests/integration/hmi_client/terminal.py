"""The command in a terminal, as a person has it before them."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from tests.processes import CHECKOUT, wait_until

ROWS, COLUMNS = 40, 120
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


class Terminal:
    """What the command has drawn until now, one thing after the other, without colours and movements."""

    def __init__(self, screen: int, process: "subprocess.Popen[bytes]") -> None:
        self._screen, self._process = screen, process
        self._drawn = b""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    @property
    def text(self) -> str:
        """All of it."""
        return _CONTROL.sub("", self._drawn.decode(errors="replace"))

    def wait_for(self, *words: str) -> None:
        """Wait until all of these were drawn in one line, whatever was drawn over it since."""
        with suppress(AssertionError):
            wait_until(lambda: self._has(words) or not self._reader.is_alive())
        assert self._has(words), f"{words} is not in:\n{self.text}"

    def type(self, text: str) -> None:
        """Press these keys."""
        os.write(self._screen, text.encode())

    def answer(self, prompt: str, text: str) -> None:
        """Type a line at this prompt, once it is drawn, and see it there."""
        wait_until(lambda: self.text.endswith(prompt))
        self.type(f"{text}\n")
        wait_until(lambda: f"{prompt}{text}" in self.text.splitlines())

    def end_input(self, prompt: str) -> None:
        """Press Ctrl-D at this prompt. Before it is drawn the key would be lost: the line editor takes
        over the terminal first, and the key that ends input for the terminal is a letter for the editor."""
        wait_until(lambda: self.text.endswith(prompt))
        self.type("\x04")

    def interrupt(self) -> None:
        """Press Ctrl-C, which reaches the command as a signal."""
        self._process.send_signal(signal.SIGINT)

    def end(self) -> int:
        """The exit code, once the command has ended by itself."""
        code = self._process.wait(60)
        self._reader.join()
        return code

    def _has(self, words: tuple[str, ...]) -> bool:
        return any(all(word in line for word in words) for line in self.text.splitlines())

    def _read(self) -> None:
        try:
            while piece := os.read(self._screen, 65_536):
                self._drawn += piece
        except OSError:  # Linux says so that nobody is left at the other end
            pass


@contextmanager
def hmi_in_terminal(*arguments: object, env: Mapping[str, str]) -> Iterator[Terminal]:
    """`hmi` at work; it is ended with the block."""
    screen, command_end = pty.openpty()
    fcntl.ioctl(command_end, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    with subprocess.Popen(
        # A shell in the background ignores Ctrl-C, and all that it starts; a terminal does not.
        ["env", "--default-signal=INT", sys.executable, "-m", "hmi_client", *map(str, arguments)],
        cwd=CHECKOUT,
        stdin=command_end,
        stdout=command_end,
        stderr=command_end,
        env={"PATH": os.environ["PATH"], "TERM": "xterm-256color", **env},
        start_new_session=True,
    ) as process:
        os.close(command_end)
        terminal = Terminal(screen, process)
        try:
            yield terminal
        finally:
            process.kill()
            terminal.end()
            os.close(screen)
