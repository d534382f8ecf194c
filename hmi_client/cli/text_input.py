"""Text from files and stdin: UTF-8 with or without a byte order mark, and with any line ends."""

import io
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TextIO

from hmi_client.credentials import BYTE_ORDER_MARK
from hmi_client.errors import HmiError

STDIN = Path("-")
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def read_lines(file: Path) -> Iterator[str]:
    """Yield the lines of a file or of STDIN, each with its line end. HmiError if it is not UTF-8 text."""
    name = "stdin" if file == STDIN else str(file)
    try:
        with nullcontext(_stdin()) if file == STDIN else file.open(encoding="utf-8") as source:
            for line in source:
                if "\0" in line:
                    raise HmiError(f"{name} has NUL characters. Save it as UTF-8 text.")
                yield line.removeprefix(BYTE_ORDER_MARK)
    except OSError as error:
        raise HmiError(f"{name} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        utf16 = error.object.startswith(UTF16_MARKS)
        found = "is UTF-16, as `>` writes it in PowerShell" if utf16 else "is not UTF-8"
        raise HmiError(f"{name} {found}. Save it as UTF-8 text.") from None


def read_text(file: Path) -> str:
    """The text of a file or of STDIN without one final line end, which `echo` and editors add. HmiError if it
    is empty."""
    text = "".join(read_lines(file)).removesuffix("\n")
    if not text:
        raise empty_input(file)
    return text


def empty_input(file: Path) -> HmiError:
    """The error of a file, or of STDIN, without a text."""
    return HmiError("Standard input is empty." if file == STDIN else f"{file} has no text.")


def _stdin() -> TextIO:
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="strict")  # whatever the locale
    return sys.stdin
