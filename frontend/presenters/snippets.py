"""A request to the API as lines to paste: for a terminal, and for a Python program."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

KEY: Final = "HMI_API_KEY"
"""The variable of the environment that holds the reader's key; no page knows it."""


@dataclass(frozen=True, slots=True)
class Snippets:
    """The same request in two languages."""

    curl: str
    python: str


def snippets_of(url: str, body: Mapping[str, Any]) -> Snippets:
    """A POST of a JSON object to a full address of the API."""
    return Snippets(_curl(url, body), _python(url, body))


def _curl(url: str, body: Mapping[str, Any]) -> str:
    return (
        f"curl {shlex.quote(url)} \\\n"
        f'  -H "Authorization: Bearer ${KEY}" \\\n'
        f"  --json {shlex.quote(_printable(json.dumps(body, ensure_ascii=False)))}"
    )


def _python(url: str, body: Mapping[str, Any]) -> str:
    fields = "".join(f"        {name!r}: {value!r},\n" for name, value in body.items())
    return (
        "import os\n\nimport httpx\n\n"
        "answer = httpx.post(\n"
        f"    {url!r},\n"
        f'    headers={{"Authorization": f"Bearer {{os.environ[{KEY!r}]}}"}},\n'
        f"    json={{\n{fields}    }},\n"
        "    timeout=60,\n"
        ")\n"
        "answer.raise_for_status()\n"
        "print(answer.json())"
    )


def _printable(text: str) -> str:
    """JSON without what a terminal would act upon, or a reader not see: such characters as their escapes."""
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in text)
