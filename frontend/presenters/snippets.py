"""API requests as code: a curl command, and a Python program with httpx or the client of OpenAI."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tenants.datasets.models import Task

KEY_VARIABLE: Final = "HMI_API_KEY"
"""The environment variable with the API key of the reader."""


@dataclass(frozen=True, slots=True)
class Snippets:
    """The same request in curl and in Python."""

    curl: str
    python: str


def snippets_of(url: str, body: Mapping[str, Any]) -> Snippets:
    """Return the code that sends a JSON object to a URL by POST."""
    return Snippets(_curl(url, body), _python(url, body))


def completion_snippets(base_url: str, task: Task, model: str) -> Snippets:
    """Return the code that asks a generative model of this task for text; `base_url` ends in `/v1`."""
    body: dict[str, Any]
    if task == Task.CHAT:
        body = {"model": model, "messages": [{"role": "user", "content": "Hello"}]}
        return Snippets(
            _curl(f"{base_url}/chat/completions", body),
            _openai_python(base_url, "chat.completions", body, "choices[0].message.content"),
        )
    body = {"model": model, "prompt": "Once upon a time", "max_tokens": 64}
    return Snippets(
        _curl(f"{base_url}/completions", body),
        _openai_python(base_url, "completions", body, "choices[0].text"),
    )


def embedding_snippets(base_url: str, model: str, texts: Sequence[str] = ("A text to read.",)) -> Snippets:
    """Return the code that asks a model for embeddings; `base_url` ends in `/v1`."""
    body = {"model": model, "input": list(texts)}
    return Snippets(
        _curl(f"{base_url}/embeddings", body),
        _openai_python(base_url, "embeddings", body, "data[0].embedding"),
    )


def openai_infer(base_url: str, body: Mapping[str, Any]) -> str:
    """Return the code that sends an infer request with the client of OpenAI, which has no method for it;
    `base_url` ends in `/api/v1`."""
    return (
        f"{_openai_client(base_url)}"
        f'answer = client.post("/infer", cast_to=object, body={dict(body)!r})\n'
        "print(answer)"
    )


def _openai_client(base_url: str) -> str:
    return (
        "import os\n\nfrom openai import OpenAI\n\n"
        f"client = OpenAI(base_url={base_url!r}, api_key=os.environ[{KEY_VARIABLE!r}])\n"
    )


def _openai_python(base_url: str, resource: str, body: Mapping[str, Any], shown: str) -> str:
    fields = "".join(f"    {name}={value!r},\n" for name, value in body.items())
    return f"{_openai_client(base_url)}answer = client.{resource}.create(\n{fields})\nprint(answer.{shown})"


def _curl(url: str, body: Mapping[str, Any]) -> str:
    return (
        f"curl {shlex.quote(url)} \\\n"
        f'  -H "Authorization: Bearer ${KEY_VARIABLE}" \\\n'
        f"  --json {shlex.quote(_printable(json.dumps(body, ensure_ascii=False)))}"
    )


def _python(url: str, body: Mapping[str, Any]) -> str:
    fields = "".join(f"        {name!r}: {value!r},\n" for name, value in body.items())
    return (
        "import os\n\nimport httpx\n\n"
        "answer = httpx.post(\n"
        f"    {url!r},\n"
        f'    headers={{"Authorization": f"Bearer {{os.environ[{KEY_VARIABLE!r}]}}"}},\n'
        f"    json={{\n{fields}    }},\n"
        "    timeout=60,\n"
        ")\n"
        "answer.raise_for_status()\n"
        "print(answer.json())"
    )


def _printable(text: str) -> str:
    """Escape control and invisible characters in JSON, so that it can be pasted into a terminal."""
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in text)
