"""Folders as `peft` and `adapters` save them, of random weights, for a tiny root; and what they answer."""

import json
from collections.abc import Mapping
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from inference.hplm.root import Root
from tests.unit.versiontree.forging import Members

LORA: Mapping[str, Any] = {
    "peft_type": "LORA", "task_type": "SEQ_CLS", "r": 4, "lora_alpha": 8, "bias": "none", "use_dora": False,
    "target_modules": ["query", "output.dense"], "rank_pattern": {}, "alpha_pattern": {}, "lora_dropout": 0.1,
    "base_model_name_or_path": "hub/tiny", "peft_version": "0.21.2",
}  # fmt: skip
PREFIX = "base_model.model."


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 0.3


def lora_weights(root: Root, *, first: int | None = None, rank: int = 4) -> dict[str, Tensor]:
    """LoRA on query and on the second feed-forward map of the layers from `first` on (by itself: the upper
    ones), and a classifier of three labels with its pooler."""
    shape = root.config.architecture
    found: dict[str, Tensor] = {}
    for layer in range(root.config.lower if first is None else first, shape.layers):
        ends = {"attention.self.query": shape.hidden, "output.dense": shape.inner}
        for number, (name, into) in enumerate(ends.items()):
            at = f"{PREFIX}bert.encoder.layer.{layer}.{name}"
            found[f"{at}.lora_A.weight"] = draw(rank, into, seed=10 * layer + number)
            found[f"{at}.lora_B.weight"] = draw(shape.hidden, rank, seed=10 * layer + number + 5)
    found[f"{PREFIX}bert.pooler.dense.weight"] = draw(shape.hidden, shape.hidden, seed=1)
    found[f"{PREFIX}bert.pooler.dense.bias"] = draw(shape.hidden, seed=2)
    found[f"{PREFIX}classifier.weight"] = draw(3, shape.hidden, seed=3)
    found[f"{PREFIX}classifier.bias"] = draw(3, seed=4)
    return found


def lora_members(root: Root, weights: Mapping[str, Tensor] | None = None, **config: Any) -> Members:
    """The files of the folder, with the README that is always there."""
    found = lora_weights(root) if weights is None else weights
    return {
        "adapter_config.json": json.dumps({**LORA, **config}).encode(),
        "adapter_model.safetensors": save(dict(found)),
        "README.md": b"A card.",
    }


def merged_answers(root: Root, states: Tensor, scaling: float = 2.0) -> Tensor:
    """What the original gives for states [B, T, d] at the cut: the updates added to the checkpoint's own
    weights, then its layers, its pooler and its classifier."""
    weights, upper = lora_weights(root), root.upper
    names = {"query": "attention.self.query", "contract": "output.dense"}
    with torch.no_grad():
        for number, layer in enumerate(upper.layers):
            for ours, theirs in names.items():
                at = f"{PREFIX}bert.encoder.layer.{number + root.config.lower}.{theirs}"
                update = weights[f"{at}.lora_B.weight"] @ weights[f"{at}.lora_A.weight"]
                getattr(layer, ours).weight.add_(scaling * update)
        mask = torch.ones(states.shape[:2], dtype=torch.bool)
        first = upper(states, mask)[:, 0]
    pooler, classifier = (f"{PREFIX}{name}" for name in ("bert.pooler.dense", "classifier"))
    inner = torch.tanh(first @ weights[f"{pooler}.weight"].T + weights[f"{pooler}.bias"])
    return inner @ weights[f"{classifier}.weight"].T + weights[f"{classifier}.bias"]


BOTTLENECK: Mapping[str, Any] = {
    "mh_adapter": True, "output_adapter": True, "reduction_factor": 8, "non_linearity": "relu",
    "original_ln_before": True, "original_ln_after": False, "ln_before": False, "ln_after": False,
    "residual_before_ln": False, "adapter_residual_before_ln": False, "is_parallel": False, "scaling": 1.0,
    "use_gating": False, "phm_layer": False, "cross_adapter": False, "inv_adapter": None, "leave_out": [0, 1],
}  # fmt: skip
TAGS = ("O", "B-place", "I-place")


def bottleneck_members(root: Root, *, first: int | None = None, **config: Any) -> Members:
    """A bottleneck adapter with a tagger's head."""
    hidden = root.config.hidden
    found: dict[str, Tensor] = {}
    for layer in range(root.config.lower if first is None else first, root.config.layers):
        for number, place in enumerate(("attention.output", "output")):
            at, seed = f"bert.encoder.layer.{layer}.{place}.adapters.tags", 40 * layer + 9 * number
            found |= {
                f"{at}.adapter_down.0.weight": draw(4, hidden, seed=seed),
                f"{at}.adapter_down.0.bias": draw(4, seed=seed + 1),
                f"{at}.adapter_up.weight": draw(hidden, 4, seed=seed + 2),
                f"{at}.adapter_up.bias": draw(hidden, seed=seed + 3),
            }
    head = {"heads.tags.1.weight": draw(3, hidden, seed=7), "heads.tags.1.bias": draw(3, seed=8)}
    labels = {"head_type": "tagging", "layers": 1, "label2id": {tag: at for at, tag in enumerate(TAGS)}}
    return {
        "adapter_config.json": json.dumps({"config": {**BOTTLENECK, **config}, "version": "1.3.0"}).encode(),
        "adapter.safetensors": save(found),
        "head_config.json": json.dumps({"config": labels}).encode(),
        "model_head.safetensors": save(head),
    }
