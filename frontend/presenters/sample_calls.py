"""Calls of a model in several languages, with inputs that the model takes: they work when they are pasted."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.http import HttpRequest

from frontend.presenters.snippets import (
    KEY_VARIABLE,
    completion_snippets,
    embedding_snippets,
    openai_infer,
    snippets_of,
)
from tenants.accounts.models import Tenant
from tenants.datasets.models import Task
from versiontree.tree.selectors.callable_hplms import CallableHplm, InputKind

INPUTS: Final[Mapping[InputKind, str | dict[str, str]]] = {
    InputKind.TEXT: "A text to read.",
    InputKind.PAIR: {"text": "A text to read.", "text_pair": "A text to compare it with."},
    InputKind.QUESTION: {"question": "What is the text about?", "context": "This text is about a question."},
}
"""An input of each kind of model for predictions."""
DEFAULT_TEXTS: Final = ("A text to read.",)
OPENAI: Final = "Python (OpenAI)"


@dataclass(frozen=True, slots=True)
class SampleCall:
    """A call in one language."""

    language: str
    code: str


def sample_calls(
    request: HttpRequest,
    tenant: Tenant,
    offer: CallableHplm,
    *,
    given: Sequence[Any] = (),
    quality: str | None = None,
) -> list[SampleCall]:
    """The call of a model with curl, and with the libraries that most programs use. ``given``: the inputs of
    a model that writes no text; without, a sample."""
    model, base_url = offer.full_name(tenant), request.build_absolute_uri("/v1")
    if offer.input_kind.is_generative or offer.task == Task.EMBEDDING:
        snippets = (
            embedding_snippets(base_url, model, given or DEFAULT_TEXTS)
            if offer.task == Task.EMBEDDING
            else completion_snippets(base_url, offer.task, model)
        )
        return [SampleCall("curl", snippets.curl), SampleCall(OPENAI, snippets.python)]
    body = {"model": model, "inputs": list(given) or [INPUTS[offer.input_kind]]}
    body |= {"quality": quality} if quality else {}
    url = request.build_absolute_uri("/api/v1/infer")
    snippets = snippets_of(url, body)
    return [
        SampleCall("curl", snippets.curl),
        SampleCall("Python (hmi_client)", _with_client(request, body)),
        SampleCall("Python (httpx)", snippets.python),
        SampleCall(OPENAI, openai_infer(url.removesuffix("/infer"), body)),
    ]


def call_with_key(request: HttpRequest, tenant: Tenant, offer: CallableHplm, key: str) -> str:
    """Lines for a shell: they set the key, and call the model."""
    return f"export {KEY_VARIABLE}={shlex.quote(key)}\n{sample_calls(request, tenant, offer)[0].code}"


def _with_client(request: HttpRequest, body: Mapping[str, Any]) -> str:
    more = "".join(f", {name}={value!r}" for name, value in body.items() if name not in ("model", "inputs"))
    return (
        "from hmi_client import Client\n\n"
        f"with Client({request.build_absolute_uri('/').rstrip('/')!r}) as client:  # reads {KEY_VARIABLE}\n"
        f"    answer = client.infer({body['model']!r}, {body['inputs']!r}{more})\n"
        "print(answer.results[0])"
    )
