"""Calls of a model in several languages, with inputs that the model takes: they work when they are pasted."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.http import HttpRequest

from frontend.presenters.snippets import KEY_VARIABLE, completion_snippets, embedding_snippets, snippets_of
from tenants.accounts.models import Tenant
from tenants.datasets.models import Task
from versiontree.tree.selectors.callable_hplms import CallableHplm, InputKind

INPUTS: Final[Mapping[InputKind, str | dict[str, str]]] = {
    InputKind.TEXT: "A text to read.",
    InputKind.PAIR: {"text": "A text to read.", "text_pair": "A text to compare it with."},
    InputKind.QUESTION: {"question": "What is the text about?", "context": "This text is about a question."},
}
"""An input of each kind of encoder model."""


@dataclass(frozen=True, slots=True)
class SampleCall:
    """A call in one language."""

    language: str
    code: str


def sample_calls(request: HttpRequest, tenant: Tenant, offer: CallableHplm) -> list[SampleCall]:
    """The call of a model with curl, and with the libraries that most programs use."""
    model = f"{tenant.slug}/{offer.reference}"
    if offer.input_kind.is_generative or offer.task == Task.EMBEDDING:
        base_url = request.build_absolute_uri("/v1")
        snippets = (
            embedding_snippets(base_url, model)
            if offer.task == Task.EMBEDDING
            else completion_snippets(base_url, offer.task, model)
        )
        return [SampleCall("curl", snippets.curl), SampleCall("Python (OpenAI)", snippets.python)]
    inputs = [INPUTS[offer.input_kind]]
    snippets = snippets_of(request.build_absolute_uri("/api/v1/infer"), {"model": model, "inputs": inputs})
    return [
        SampleCall("curl", snippets.curl),
        SampleCall("Python (hmi_client)", _with_client(request, model, inputs)),
        SampleCall("Python (httpx)", snippets.python),
    ]


def call_with_key(request: HttpRequest, tenant: Tenant, offer: CallableHplm, key: str) -> str:
    """Lines for a shell: they set the key, and call the model."""
    return f"export {KEY_VARIABLE}={shlex.quote(key)}\n{sample_calls(request, tenant, offer)[0].code}"


def _with_client(request: HttpRequest, model: str, inputs: list[Any]) -> str:
    return (
        "from hmi_client import Client\n\n"
        f"with Client({request.build_absolute_uri('/').rstrip('/')!r}) as client:  # reads {KEY_VARIABLE}\n"
        f"    answer = client.infer({model!r}, {inputs!r})\n"
        "print(answer.results[0])"
    )
