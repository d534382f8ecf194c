"""The queue's atomic steps, as Lua scripts in the folder `lua`. Each runs whole inside the server.

Every script may be repeated after a lost connection. Its first lines name its keys and arguments.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from redis import Redis

Argument = str | bytes | int
FOLDER: Final = Path(__file__).parent / "lua"


def run(redis: Redis, script: str, keys: Sequence[str], args: Sequence[Argument]) -> Any:
    """Run a script by its text. By its checksum it would fail when a retry meets a server that was restarted
    and has never seen it."""
    return redis.eval(script, len(keys), *keys, *args)


def _read(*names: str) -> str:
    """The files one after the other: those before the last define what it uses."""
    return "".join((FOLDER / f"{name}.lua").read_text(encoding="ascii") for name in names)


SUBMIT: Final = _read("depth", "submit")
NAME_TAKEN: Final = 2
ANSWER: Final = _read("depth", "entry", "answer")
APPEND: Final = _read("depth", "entry", "append")
DISCARD: Final = _read("depth", "entry", "discard")
ANSWERED: Final = _read("answered")
CLAIM: Final = _read("claim")
BEGIN: Final = _read("begin_answer")
KEEP: Final = _read("keep_answer")
FORGET: Final = _read("forget_answers")
RELEASE: Final = _read("release_answer")
TAKE: Final = _read("take")
