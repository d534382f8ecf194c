"""A peer's program answers JSON lines: one line out for each line in, until its input ends."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Protocol, TextIO

Answer = dict[str, Any]


class Bench(Protocol):
    """Answers requests."""

    def ready(self) -> Answer:
        """What stands here."""

    def answer(self, **request: Any) -> Answer:
        """The answer to one request."""


def serve(make: Callable[[], Bench]) -> int:
    """Say {"ready": …}, then answer every line until the input ends; {"error": …} where that fails. Returns
    the exit status."""
    answers = _own_output()

    def say(answer: Answer) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    try:
        bench = make()
        say({"ready": bench.ready()})
    except Exception as error:  # noqa: BLE001 - whatever it is, the benchmark must hear of it
        say({"error": _told(error)})
        return 1
    for line in sys.stdin:
        try:
            say(bench.answer(**json.loads(line)))
        except Exception as error:  # noqa: BLE001 - one bad request does not end the program
            say({"error": _told(error)})
    return 0


def versions(packages: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Those of the packages that are installed."""
    for package in packages:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            continue


def _own_output() -> TextIO:
    """Where answers go; what libraries print goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
