"""Registers a root with the hostile chat template, and models of it and of others."""

import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import httpx
import torch
from safetensors.torch import save

from benchmarks.product.hostile.bodies import archive
from benchmarks.product.hostile.templates import TEMPLATE
from tests.unit.tiny_decoder import HIDDEN, tiny_decoder_folder

ROOT_NAME, POSITIONS, LAYERS = "hostile-writer", 8192, 3
SMOLLM2_LAYERS, SMOLLM2_HIDDEN = 30, 576
READY_WITHIN_S, POLL_S = 90.0, 0.3
QUERY: Final = "base_model.model.model.layers.{}.self_attn.q_proj"
LORA: Final[dict[str, Any]] = {
    "peft_type": "LORA",
    "task_type": "CAUSAL_LM",
    "r": 4,
    "lora_alpha": 8,
    "bias": "none",
    "target_modules": ["q_proj"],
}


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
    _import_model(writer, root["id"], name, "chat", _lora(LAYERS - 1, HIDDEN))
    with suppress(httpx.TimeoutException):
        _wait_until_answered(writer, name, latest)
    return name


def smollm2_model(http: httpx.Client, root: int, name: str) -> str:
    """The name of a new model of SmolLM2-135M that continues texts. Raises httpx.HTTPError."""
    _import_model(http, root, name, "generation", _lora(SMOLLM2_LAYERS - 1, SMOLLM2_HIDDEN))
    return name


def _import_model(http: httpx.Client, root: int, name: str, task: str, lora: dict[str, torch.Tensor]) -> None:
    """Import a LoRA as a model. Raises httpx.HTTPError."""
    made = http.post(
        "/api/v1/import/adapter",
        data={"parent": str(root), "name": name, "task": task},
        files={"archive": ("a.zip", archive(LORA, save(lora)), "application/zip")},
    )
    made.raise_for_status()


def _lora(layer: int, hidden: int) -> dict[str, torch.Tensor]:
    query = QUERY.format(layer)
    return {
        f"{query}.lora_A.weight": torch.zeros(4, hidden),
        f"{query}.lora_B.weight": torch.zeros(hidden, 4),
    }


def _wait_until_answered(writer: httpx.Client, name: str, latest: float) -> None:
    body = {"model": name, "messages": [{"role": "user", "content": "a text"}], "max_tokens": 1}
    while writer.post("/v1/chat/completions", json=body).is_error and time.monotonic() < latest:
        time.sleep(POLL_S)
