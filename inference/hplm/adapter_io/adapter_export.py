"""Exports an hPLM as a folder that `peft` or `adapters` can load on the root's checkpoint."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from torch import Tensor

from inference.errors import HplmError
from inference.hplm.adapter_io import adapterhub, peft_config, task_heads
from inference.hplm.adapter_io.adapter_folder import UNSUPPORTED, module_name, unsupported_adapter
from inference.hplm.adapter_io.peft_loading import peft_loading
from inference.hplm.adapter_io.task_heads import FAMILY_HEADS, TOKEN_HEADS, check_family
from inference.hplm.artifact_files import (
    read_artifact_json,
    read_weights,
    to_float32,
    write_json,
    write_weights,
)
from inference.hplm.families import FAMILIES
from inference.hplm.heads import Head
from inference.hplm.hplm import Hplm
from inference.hplm.pets.spec import NORMS, PLACES
from inference.hplm.root import UPPER_FILE
from inference.hplm.root_config import RootConfig
from inference.text.tasks import EMBEDDING, QUESTION_ANSWERING, REGRESSION
from inference.text.tokenization import ROOT_FILE

SPARSE: Final = "it hides or changes single weights, which no adapter format supports. Use the archive format"
PEFT_PREFIX: Final = "base_model.model."
ADAPTER_NAME: Final = "hmi"
OUTPUT_WEIGHTS: Final = ("classifier.weight", "out_proj.weight", "qa_outputs.weight")
"""The ends of the names of a task model's last weights."""
PROBLEM_TYPES: Final = {task: name for name, task in task_heads.PROBLEM_TYPES.items()}
HEAD_TYPES: Final = {task: kind for kind, task in adapterhub.TASKS.items()} | {REGRESSION: "classification"}
MODEL_CLASSES: Final = {
    "bert": "BertAdapterModel",
    "roberta": "RobertaAdapterModel",
    "xlm-roberta": "XLMRobertaAdapterModel",
    "distilbert": "DistilBertAdapterModel",
    "electra": "ElectraAdapterModel",
}
ADAPTERHUB_PARTS: Final = {
    True: {"adapter": "attention_adapters", "output_adapter": "output_adapters"},
    False: {"adapter": "attention.output", "output_adapter": "output"},
}
"""AdapterHub's modules by our parts, by whether the family is DistilBERT."""


def adapter_export(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Export the hPLM in the folder `hplm`, of the root in the folder `root`, to the new folder `out`.

    The `format` is "peft" or "adapterhub", the tensors are float32. `base` is the hub id of the root's
    checkpoint, by default the root's name. Returns {"read": how to load it and to get its outputs}, or
    {"refused": why the format does not support it}. Raises HplmError for unreadable artifacts.
    """
    root, out = Path(payload["root"]), Path(payload["out"])
    config = RootConfig.from_json(read_artifact_json(root / ROOT_FILE))
    if payload.get("base"):
        config = replace(config, name=payload["base"])
    hplm = Hplm.load(Path(payload["hplm"]))
    out.mkdir()
    try:
        if hplm.task == EMBEDDING:
            raise unsupported_adapter(
                "it only gives the embeddings of its root and has no adapter. Use the archive format"
            )
        if hplm.head.reading.cut:
            raise unsupported_adapter(
                "it is a quick version: it has no adapter, and its head reads states inside the root, which "
                "no adapter format supports. Export a trained version, or use the archive format"
            )
        check_family(config)
        return {"read": WRITERS[payload["format"]](hplm, config, root, out)}
    except HplmError as error:
        if error.code != UNSUPPORTED:
            raise
        return {"refused": error.message}


def write_peft(hplm: Hplm, config: RootConfig, root: Path, out: Path) -> str:
    """Write LoRA, biases and layer norms of the upper layers, and the head. Returns how to load them."""
    spec = hplm.pet.spec
    if spec.mask or spec.diff:
        raise unsupported_adapter(SPARSE)
    if spec.adapter or spec.output_adapter:
        raise unsupported_adapter(
            "it has bottleneck adapters, which PEFT does not support. Use the adapterhub or archive format"
        )
    prefix = PEFT_PREFIX + FAMILIES[config.family].prefix
    kind, head, read = _peft_head(hplm, config)
    tensors = {PEFT_PREFIX + name: value for name, value in head.items()}
    for layer in range(config.upper):
        for place in spec.lora_places if spec.lora else ():
            module = prefix + module_name(layer, place, config)
            tensors[f"{module}.lora_A.weight"] = hplm.pet.weights[f"lora.{place}.a"][layer]
            tensors[f"{module}.lora_B.weight"] = hplm.pet.weights[f"lora.{place}.b"][layer]
    for name, value in _shifted_tensors(hplm, config, root).items():
        tensors[prefix + name] = value
    write_weights(out / peft_config.WEIGHTS_FILE, tensors)
    places = spec.lora_places if spec.lora else PLACES[:1]
    write_json(
        out / peft_config.CONFIG_FILE,
        {
            "peft_type": "LORA",
            "task_type": kind,
            "base_model_name_or_path": config.name,
            "inference_mode": True,
            "r": max(spec.lora, 1),
            "lora_alpha": max(spec.lora, 1),
            "lora_dropout": 0.0,
            # PEFT has no value for the biases of some layers; the tensors say which.
            "bias": "all" if spec.biases else "none",
            "target_modules": sorted({module_name(layer, place, config)
                                      for layer in range(config.upper) for place in places}),
            # PEFT matches the ends of module names: bert.pooler.dense must be "pooler".
            "modules_to_save": sorted({name.removeprefix("bert.").split(".")[0] for name in head}),
        },
    )  # fmt: skip
    names = _output_names(hplm, kind)
    extra: dict[str, Any] = {
        "id2label": {str(number): name for number, name in enumerate(names)},
        "label2id": {name: number for number, name in enumerate(names)},
    }
    if hplm.task in PROBLEM_TYPES:
        extra["problem_type"] = PROBLEM_TYPES[hplm.task]
    write_json(out / "config.json", extra)
    outputs = next(len(weight) for name, weight in head.items() if name.endswith(OUTPUT_WEIGHTS))
    return peft_loading(kind, base=config.name, outputs=outputs, read=read)


def _output_names(hplm: Hplm, kind: str) -> list[str]:
    """The name of each logit of the task model. A token classifier for whole texts may have two logits for
    each label: one for the first token, and one to average over all tokens."""
    if kind != "TOKEN_CLS" or hplm.head.reading.per_token:
        return list(hplm.labels)
    labels = list(hplm.labels) or ["value"]
    return labels if hplm.head.pooling == "cls" else [*labels, *(f"{label} (mean)" for label in labels)]


def _shifted_tensors(hplm: Hplm, config: RootConfig, root: Path) -> dict[str, Tensor]:
    """The biases and layer norms with the PET's changes, by the checkpoint's names."""
    spec, found = hplm.pet.spec, {}
    own = to_float32(read_weights(root / UPPER_FILE)) if spec.biases or spec.norms else {}
    for layer in range(config.upper):
        for place in PLACES if spec.biases else ():
            value = own[f"layers.{layer}.{place}.bias"] + hplm.pet.weights[f"bias.{place}"][layer]
            # PEFT wraps a linear layer with LoRA.
            inside = ".base_layer" if spec.lora and place in spec.lora_places else ""
            found[f"{module_name(layer, place, config)}{inside}.bias"] = value
        for norm in NORMS if spec.norms else ():
            for end in ("weight", "bias"):
                value = own[f"layers.{layer}.{norm}_norm.{end}"]
                shifted = value + hplm.pet.weights[f"norm.{norm}.{end}"][layer]
                found[f"{module_name(layer, f'{norm}_norm', config)}.{end}"] = shifted
    return found


def _peft_head(hplm: Hplm, config: RootConfig) -> tuple[str, dict[str, Tensor], str]:
    """(PEFT's task type, tensors by the task model's names, the outputs as an expression of the logits)."""
    head, names = hplm.head, FAMILY_HEADS[config.family]
    if head.reading.per_token:
        if head.inner:
            raise unsupported_adapter(
                "its head has a hidden layer, but transformers' models for token tasks have only an output "
                "layer. Use the archive format"
            )
        kind = "QUESTION_ANS" if hplm.task == QUESTION_ANSWERING else "TOKEN_CLS"
        return kind, _linear(TOKEN_HEADS[hplm.task], head.weight, head.bias), "logits"
    if head.inner is None:
        return "TOKEN_CLS", *_token_head(head)
    if head.activation != names.activation:
        raise unsupported_adapter(
            f"its head uses the activation {head.activation}, but transformers' {config.family} classifiers "
            f"use {names.activation}. Use the archive format"
        )
    # The pooler is a module of the encoder.
    inner = f"bert.{names.inner}" if names.inner == "pooler.dense" else names.inner
    tensors = _linear(inner, head.inner.weight, head.inner.bias)
    return "SEQ_CLS", tensors | _linear(names.output, head.weight, head.bias), "logits"


def _token_head(head: Head) -> tuple[dict[str, Tensor], str]:
    """A head without a hidden layer, as a token classifier: text classifiers all have one."""
    width = head.hidden
    if head.pooling == "cls":
        return _linear("classifier", head.weight, head.bias), "logits[0]"
    both = head.weight.new_zeros(2 * head.num_labels, width)
    both[: head.num_labels], both[head.num_labels :] = head.weight[:, :width], head.weight[:, width:]
    bias = head.bias.new_zeros(2 * head.num_labels)
    bias[: head.num_labels] = head.bias
    read = f"logits[0, :{head.num_labels}] + logits[:, {head.num_labels}:].mean(0)"
    return _linear("classifier", both, bias), read


def _linear(name: str, weight: Tensor, bias: Tensor) -> dict[str, Tensor]:
    return {f"{name}.weight": weight, f"{name}.bias": bias}


def write_adapterhub(hplm: Hplm, config: RootConfig, _root: Path, out: Path) -> str:
    """Write bottleneck adapters of the upper layers, and the head. Returns how to get its outputs."""
    spec = hplm.pet.spec
    if spec.mask or spec.diff:
        raise unsupported_adapter(SPARSE)
    if spec.lora or spec.biases or spec.norms or not (spec.adapter or spec.output_adapter):
        raise unsupported_adapter(
            "this format supports bottleneck adapters only, without LoRA, biases or layer norms. Use the "
            "peft or archive format"
        )
    if hplm.head.pooling == "cls_mean":
        raise unsupported_adapter(
            "its head uses the mean of all tokens, which AdapterHub heads do not support. Use the archive "
            "format"
        )
    if config.family not in MODEL_CLASSES:
        raise unsupported_adapter(
            f"AdapterHub does not support {config.family}. Use the peft or archive format"
        )
    family = FAMILIES[config.family]
    tensors = {}
    for part, place in ADAPTERHUB_PARTS[config.family == "distilbert"].items():
        for layer in range(config.upper if getattr(spec, part) else 0):
            at = (
                family.prefix
                + family.layer.format(layer + config.lower)
                + f"{place}.adapters.{ADAPTER_NAME}."
            )
            for theirs, ours in adapterhub.TENSOR_NAMES.items():
                tensors[at + theirs] = hplm.pet.weights[f"{part}.{ours}"][layer]
    write_weights(out / adapterhub.WEIGHTS_FILE, tensors)
    about = {
        "hidden_size": config.hidden,
        "model_type": config.family,
        "model_name": config.name,
        "model_class": MODEL_CLASSES[config.family],
        "name": ADAPTER_NAME,
    }
    form = {
        **adapterhub.REQUIRED_CONFIG,
        "mh_adapter": bool(spec.adapter),
        "output_adapter": bool(spec.output_adapter),
        "reduction_factor": _reduction_factor(hplm, config),
        "leave_out": list(range(config.lower)),
        "scaling": 1.0,
    }
    write_json(out / adapterhub.CONFIG_FILE, {**about, "config": form})
    _write_hub_head(hplm, about, out)
    return "The logits are the outputs of the model."


def _reduction_factor(hplm: Hplm, config: RootConfig) -> dict[str, float] | float:
    """The factor of the adapters' width. AdapterHub rounds hidden / factor down, hence the 0.5."""
    spec = hplm.pet.spec
    if spec.adapter and spec.output_adapter and spec.adapter != spec.output_adapter:
        raise unsupported_adapter(
            f"its adapters have different widths ({spec.adapter} after attention, {spec.output_adapter} "
            "after the feed-forward block), but AdapterHub supports only one width. Use the archive format"
        )
    return config.hidden / ((spec.adapter or spec.output_adapter) + 0.5)


def _write_hub_head(hplm: Hplm, about: Mapping[str, Any], out: Path) -> None:
    head = hplm.head
    maps = [(head.inner.weight, head.inner.bias)] if head.inner else []
    maps.append((head.weight, head.bias))
    tensors: dict[str, Tensor] = {}
    for number, (weight, bias) in enumerate(maps):
        tensors |= _linear(f"heads.{ADAPTER_NAME}.{1 + 3 * number}", weight, bias)
    write_weights(out / adapterhub.HEAD_FILE, tensors)
    config: dict[str, Any] = {
        "head_type": HEAD_TYPES[hplm.task],
        "num_labels": head.num_labels,
        "layers": len(maps),
        "activation_function": head.activation or "tanh",
    }
    if hplm.task != QUESTION_ANSWERING:
        config["label2id"] = {label: number for number, label in enumerate(hplm.labels)}
    if hplm.task in PROBLEM_TYPES:
        config |= {"use_pooler": False, "bias": True}
    (out / adapterhub.HEAD_CONFIG_FILE).write_text(json.dumps({**about, "config": config}), encoding="utf-8")


WRITERS: Final[Mapping[str, Callable[[Hplm, RootConfig, Path, Path], str]]] = {
    "peft": write_peft,
    "adapterhub": write_adapterhub,
}
