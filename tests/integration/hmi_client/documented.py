"""The answers that pages show, and what real ones have that is not in them, or lack."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[3]
BY_LABEL = ".scores"
"""A model's labels are its names."""


def blocks(page: str, language: str) -> list[str]:
    """Those of a page in a language."""
    block = re.compile(rf"^```{language}\n(.*?)^```$", re.M | re.S)
    return block.findall((CHECKOUT / page).read_text(encoding="utf-8"))


def shown(page: str) -> list[Any]:
    """The JSON values of a page, in their order; of lines each."""
    found: list[Any] = []
    for block in blocks(page, "json"):
        if block.startswith('"'):  # a field of an answer that was shown before
            found.append(json.loads(f"{{{block}}}"))
        elif block.startswith("{\n"):
            found.append(json.loads(block))
        else:
            found += map(json.loads, block.splitlines())
    return found


def values(said: str) -> list[Any]:
    """The JSON objects among what is said."""
    found, at = list[Any](), said.find("{")
    while at >= 0:
        value, at = json.JSONDecoder().raw_decode(said, at)
        found.append(value)
        at = said.find("{", at)
    return found


def differences(told: Any, got: Any, at: str = "answer") -> Iterator[str]:
    """Where a real answer has another form than a page tells: other names, or another kind of value. What is
    null or an empty list in one of them has no form; of lists the first ones are compared."""
    if told in (None, []) or got in (None, []):
        return
    if isinstance(told, dict) and isinstance(got, dict):
        by_label = at.endswith(BY_LABEL)
        yield from () if by_label else (f"{at}: {name} is not in both" for name in sorted({*told} ^ {*got}))
        for name in {*told} & {*got}:
            yield from differences(told[name], got[name], f"{at}.{name}")
    elif isinstance(told, list) and isinstance(got, list):
        yield from differences(told[0], got[0], f"{at}[0]")
    elif _kind(told) is not _kind(got):
        yield f"{at}: {got!r} is not of the kind of {told!r}"


def _kind(value: Any) -> type:
    return float if type(value) is int else type(value)
