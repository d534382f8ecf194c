"""Registers a root with the hostile chat template, and a model of it."""

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
READY_WITHIN_S, POLL_S = 90.0, 0.3
QUERY: Final = "base_model.model.model.layers.2.self_attn.q_proj"
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
