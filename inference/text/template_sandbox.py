"""Renders chat templates in a process without secrets, files and network, which `TemplateRenderer` starts:
`python template_sandbox.py CPU_SECONDS MEMORY_BYTES OUTPUT_CHARACTERS`.

Its stdin is a socket: a request is two messages, the template and JSON, and the answer is one of JSON.
Templates have what transformers gives them. The kernel ends the process when a request takes more than
CPU_SECONDS. It imports the standard library and jinja2 alone, so that it starts quickly.
"""

import gc
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from multiprocessing.connection import Connection
from typing import Any, Final, NoReturn

from jinja2 import Template, nodes
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.ext import Extension
from jinja2.meta import find_undeclared_variables
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

MAX_TEMPLATES: Final = 32
"""So many compiled templates are kept."""
MAX_REFUSAL: Final = 200
"""Characters of what a template says that users are shown."""
LARGE_RENDER_S: Final = 0.01
"""A template that takes longer may leave much to collect. It pays for that itself."""
WARM_UP: Final = (
    "{{ '\\N{BULLET}' | pprint | wordwrap | striptags }}{{ strftime_now('%Y') }}{{ missing.attribute }}"
)
"""Has jinja2 and Python import what they import late."""


class Refused(TemplateError):
    """The template itself refuses what it is given."""


class _Dict:
    """What templates call `dict`, without the class."""

    fromkeys = staticmethod(dict.fromkeys)

    def __call__(self, *pairs: Any, **items: Any) -> dict[Any, Any]:
        return dict(*pairs, **items)


class _Variables(Namespace):
    """A namespace without names that begin with an underscore: those mean something to Python and jinja2."""

    def __init__(self, /, *pairs: Any, **variables: Any) -> None:
        super().__init__({_public(name): value for name, value in dict(*pairs, **variables).items()})

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(_public(name), value)


class _GenerationTag(Extension):
    """``{% generation %}`` marks what a training learns; a rendering gives its body as it is."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


def _public(name: Any) -> Any:
    if str(name).startswith("_"):
        raise SecurityError(f"a template may not name a variable {str(name)[:64]}")
    return name


def _raise_exception(message: object) -> NoReturn:
    raise Refused(str(message))


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: Any = None,
    separators: Any = None,
    sort_keys: bool = False,
) -> str:
    """JSON as transformers' templates expect it: without HTML's escapes."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _environment() -> ImmutableSandboxedEnvironment:
    """That of transformers, but without random results: an answer can be had again."""
    extensions = ["jinja2.ext.loopcontrols", _GenerationTag]
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=extensions)
    environment.filters["tojson"] = _to_json
    del environment.filters["random"], environment.globals["lipsum"]
    environment.globals |= {"dict": _Dict(), "namespace": _Variables, "raise_exception": _raise_exception}
    return environment


ENVIRONMENT: Final = _environment()


@lru_cache(MAX_TEMPLATES)
def _compiled(source: str) -> Template:
    return ENVIRONMENT.from_string(source)


def _variables(source: str) -> dict[str, Any]:
    """What a usable template reads besides what the environment has."""
    _compiled(source)
    read = find_undeclared_variables(ENVIRONMENT.parse(source))
    return {"variables": sorted(read - ENVIRONMENT.globals.keys())}


def _rendered(source: str, now: datetime, values: Mapping[str, Any], max_characters: int) -> dict[str, Any]:
    parts, length = list[str](), 0
    for part in _compiled(source).generate({**values, "strftime_now": now.strftime}):
        length += len(part)
        if length > max_characters:
            raise ValueError(f"it writes more than {max_characters:,} characters")
        parts.append(part)
    text = "".join(parts)
    text.encode()  # a template can write half a surrogate pair
    return {"text": text}


def _answer(source: str, request: Any, max_characters: int) -> dict[str, Any]:
    try:
        if request is None:
            return _variables(source)
        now, values = request
        return _rendered(source, datetime.fromisoformat(now), values, max_characters)
    except Refused as error:
        return {"refused": _shown(error)}
    except MemoryError:
        os._exit(1)
    except Exception as error:  # noqa: BLE001 - a template fails in as many ways as any program
        return {"failed": _shown(error)}


def _shown(error: Exception) -> str:
    """The beginning of what an error says, on one line. It is quoted: it may hold some of a text."""
    words = " ".join(str(error).split())[:MAX_REFUSAL].replace("”", "“").encode(errors="replace").decode()
    return f"“{words}”" if words else type(error).__name__


def _limit(memory: int) -> None:
    """From now on no file can be opened, and none written."""
    for limit, value in {
        resource.RLIMIT_DATA: memory,
        resource.RLIMIT_NOFILE: 0,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
    }.items():
        resource.setrlimit(limit, (value, value))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's; the parent ends this process


def main(cpu_s: float, memory: int, max_characters: int) -> None:
    """Answer requests. Raises EOFError when stdin ends."""
    _answer(WARM_UP, [datetime.now(UTC).isoformat(), {}], max_characters)
    _limit(memory)
    connection = Connection(sys.stdin.fileno())
    connection.send_bytes(b"ready")
    while True:
        source, request = (connection.recv_bytes().decode(errors="surrogatepass") for _ in range(2))
        signal.setitimer(signal.ITIMER_PROF, cpu_s)  # its signal ends the process
        begun = time.process_time()
        answer = _answer(source, json.loads(request), max_characters)
        if time.process_time() - begun > LARGE_RENDER_S:
            gc.collect()
        signal.setitimer(signal.ITIMER_PROF, 0)
        connection.send_bytes(json.dumps(answer, ensure_ascii=False).encode())


if __name__ == "__main__":
    with suppress(EOFError, OSError):  # the parent has ended
        main(float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
