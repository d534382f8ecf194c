"""Reads the folder of a bottleneck adapter that AdapterHub's `adapters` has saved with its head:
`adapter_config.json`, `adapter.safetensors`, `head_config.json` and `model_head.safetensors`."""

import math
import re
from collections.abc import Mapping
from typing import Any, Final, cast

import torch
from torch import Tensor

from inference.hplm.adapter_io.adapter_folder import (
    AdapterRequest,
    ImportedAdapter,
    LowerLayersChangedError,
    read_adapter_json,
    read_tensors,
    strip_prefix,
    unsupported_adapter,
)
from inference.hplm.adapter_io.task_heads import imported_hplm
from inference.hplm.heads import ACTIVATIONS, Activation, Head, HeadLayer
from inference.hplm.hplm import MAX_ADAPTER_WIDTH, Hplm
from inference.hplm.pets.kinds import tensor_shapes
from inference.hplm.pets.spec import PetSpec, UpperShape
from inference.hplm.pets.weights import PetWeights
from inference.hplm.root_config import RootConfig
from inference.text.tasks import PER_TOKEN, Task

CONFIG_FILE: Final = "adapter_config.json"
WEIGHTS_FILE: Final = "adapter.safetensors"
HEAD_CONFIG_FILE: Final = "head_config.json"
HEAD_FILE: Final = "model_head.safetensors"
REQUIRED_CONFIG: Final[Mapping[str, Any]] = {
    "original_ln_before": True,
    "original_ln_after": False,
    "residual_before_ln": False,
    "adapter_residual_before_ln": False,
    "ln_before": False,
    "ln_after": False,
    "non_linearity": "relu",
    "is_parallel": False,
    "use_gating": False,
    "cross_adapter": False,
    "phm_layer": False,
    "inv_adapter": None,
}
"""The supported kind: after the layer norm of each block, with a residual connection."""
IGNORED_CONFIG: Final = frozenset(
    {
        "mh_adapter", "output_adapter", "reduction_factor", "leave_out", "scaling", "dropout", "init_weights",
        "init_weights_seed", "stochastic_depth", "hypercomplex_nonlinearity", "learn_phm",
        "inv_adapter_reduction_factor", "architecture",
    }
)  # fmt: skip
TASKS: Final[Mapping[str, Task]] = {
    "classification": "classification",
    "multilabel_classification": "multilabel",
    "tagging": "tagging",
    "question_answering": "question_answering",
}
PROBLEM_TYPES: Final[Mapping[str, str]] = {"multilabel_classification": "multi_label_classification"}
"""The ``problem_type`` of transformers for a head of this type."""
ADAPTER_PARTS: Final = {
    "attention.output": "adapter",
    "attention_adapters": "adapter",
    "output": "output_adapter",
    "output_adapters": "output_adapter",
}
"""Our parts by AdapterHub's modules. The second names are DistilBERT's."""
TENSOR_NAMES: Final = {
    "adapter_down.0.weight": "down_w",
    "adapter_down.0.bias": "down_b",
    "adapter_up.weight": "up_w",
    "adapter_up.bias": "up_b",
}
_TENSOR: Final = re.compile(
    r"(?:encoder|transformer)\.layer\.(\d{1,4})\.([a-z_.]+?)\.adapters\.([^.]+)\.(adapter_[a-z]+.*)"
)
_HEAD: Final = re.compile(r"heads\.[^.]+\.(\d{1,3})\.(weight|bias)")


def read_adapterhub(request: AdapterRequest, config: RootConfig) -> ImportedAdapter:
    """The hPLM with the adapter's changes of the upper layers.

    Raises HplmError for what cannot be imported, such as LowerLayersChangedError.
    """
    about = read_adapter_json(request.folder / CONFIG_FILE)
    form = about.get("config")
    if not isinstance(form, Mapping):
        raise unsupported_adapter(
            f"{CONFIG_FILE} has neither peft_type (PEFT) nor config (AdapterHub). Import a folder that one "
            "of these libraries saved"
        )
    _check(form)
    weights = read_tensors(request.folder / WEIGHTS_FILE)
    dropped: list[str] = []
    found = _tensors_by_layer(weights, config, dropped)
    if dropped and not request.drop_lower:
        raise LowerLayersChangedError(tuple(dropped))
    pet = _pet(found, _scaling(form), config)
    extra = {name: about.get(name) for name in ("model_name", "version")}
    return ImportedAdapter(_with_head(pet, request), tuple(dropped), {"format": "adapterhub", **extra})


def _check(form: Mapping[str, Any]) -> None:
    for name, value in form.items():
        if name in REQUIRED_CONFIG:
            if value != REQUIRED_CONFIG[name]:
                raise unsupported_adapter(
                    f"{name} is {str(value)[:40]!r} in {CONFIG_FILE}. Only bottleneck adapters with "
                    f"{name}={REQUIRED_CONFIG[name]!r} can be imported"
                )
        elif (
            name not in IGNORED_CONFIG
            and not name.startswith(("phm_", "factorized_phm_", "shared_"))
            and value
        ):
            raise unsupported_adapter(
                f"{name[:60]!r} is set in {CONFIG_FILE}, but is not supported. Train the adapter without it"
            )
    if missing := sorted(
        REQUIRED_CONFIG.keys() - form.keys() - {"adapter_residual_before_ln", "cross_adapter"}
    ):
        raise unsupported_adapter(
            f"{missing[0]} is missing in {CONFIG_FILE}. Only bottleneck adapters can be imported"
        )


def _scaling(form: Mapping[str, Any]) -> float:
    value = form.get("scaling", 1.0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise unsupported_adapter(
            f"scaling is {str(value)[:40]!r} in {CONFIG_FILE}; it must be a finite number"
        )
    return float(value)


def _tensors_by_layer(
    weights: Mapping[str, Tensor], config: RootConfig, dropped: list[str]
) -> dict[tuple[str, int], dict[str, Tensor]]:
    """The tensors by part and upper layer. Appends non-zero adapters below the cut to `dropped`."""
    found: dict[tuple[str, int], dict[str, Tensor]] = {}
    names = set()
    for name in sorted(weights):
        match = _TENSOR.fullmatch(strip_prefix(name, config))
        if match is None or match[2] not in ADAPTER_PARTS or match[4] not in TENSOR_NAMES:
            raise unsupported_adapter(
                f"{name[:120]} in {WEIGHTS_FILE} is not a tensor of a bottleneck adapter for this root "
                f"({config.family})"
            )
        names.add(match[3])
        number = int(match[1])
        if number >= config.layers:
            raise unsupported_adapter(
                f"{name[:120]} does not exist in this root, which has layers 0 to {config.layers - 1}"
            )
        if number < config.lower:
            if TENSOR_NAMES[match[4]].startswith("up_") and bool(weights[name].any()):
                dropped.append(name.rpartition(".adapters.")[0])
            continue
        found.setdefault((ADAPTER_PARTS[match[2]], number - config.lower), {})[TENSOR_NAMES[match[4]]] = (
            weights[name]
        )
    if len(names) > 1:
        raise unsupported_adapter(f"{WEIGHTS_FILE} contains {len(names)} adapters. Save a single adapter")
    dropped[:] = dict.fromkeys(dropped)
    return found


def _pet(
    found: Mapping[tuple[str, int], Mapping[str, Tensor]], scaling: float, config: RootConfig
) -> PetWeights:
    """The PET: narrower adapters are padded with zeros, and a layer without one has an adapter of zeros."""
    shape = UpperShape(config.upper, config.hidden, config.architecture.inner)
    widths = {"adapter": 0, "output_adapter": 0}
    for (part, layer), tensors in found.items():
        _check_shapes(part, layer, tensors, config)
        widths[part] = max(widths[part], len(tensors["down_b"]))
    spec = PetSpec(adapter=widths["adapter"], output_adapter=widths["output_adapter"])
    weights = {name: torch.zeros(size) for name, size in tensor_shapes(spec, shape)}
    for (part, layer), tensors in found.items():
        width = len(tensors["down_b"])
        weights[f"{part}.down_w"][layer, :width] = tensors["down_w"]
        weights[f"{part}.down_b"][layer, :width] = tensors["down_b"]
        weights[f"{part}.up_w"][layer, :, :width] = tensors["up_w"] * scaling
        weights[f"{part}.up_b"][layer] = tensors["up_b"] * scaling
    return PetWeights(spec, shape, weights)


def _check_shapes(part: str, layer: int, tensors: Mapping[str, Tensor], config: RootConfig) -> None:
    where = f"layer {layer + config.lower}, {part}"
    if tensors.keys() != set(TENSOR_NAMES.values()):
        raise unsupported_adapter(
            f"{where}: {WEIGHTS_FILE} has no "
            f"{', '.join(theirs for theirs, ours in TENSOR_NAMES.items() if ours not in tensors)}"
        )
    width = tensors["down_b"].numel()
    if not 1 <= width <= MAX_ADAPTER_WIDTH:
        raise unsupported_adapter(
            f"{where}: the bottleneck width is {width}; it must be between 1 and {MAX_ADAPTER_WIDTH}"
        )
    hidden = config.hidden
    expected = {"down_w": (width, hidden), "down_b": (width,), "up_w": (hidden, width), "up_b": (hidden,)}
    for theirs, name in TENSOR_NAMES.items():
        if tuple(tensors[name].shape) != expected[name]:
            raise unsupported_adapter(
                f"{where}: {theirs} has shape {tuple(tensors[name].shape)}; expected {expected[name]}"
            )


def _with_head(pet: PetWeights, request: AdapterRequest) -> Hplm:
    if not (request.folder / HEAD_CONFIG_FILE).is_file():
        raise unsupported_adapter(
            f"it has no prediction head ({HEAD_CONFIG_FILE} is missing). Save it with with_head=True"
        )
    about = read_adapter_json(request.folder / HEAD_CONFIG_FILE).get("config")
    about = about if isinstance(about, Mapping) else {}
    kind = str(about.get("head_type"))
    if kind not in TASKS:
        raise unsupported_adapter(
            f"head_type is {kind[:40]!r} in {HEAD_CONFIG_FILE}; it must be one of {', '.join(TASKS)}"
        )
    if about.get("use_pooler"):
        raise unsupported_adapter(
            f"use_pooler is set in {HEAD_CONFIG_FILE}, but adapters do not contain the pooler. Train the "
            "head with use_pooler=False"
        )
    task = TASKS[kind]
    head = _head(read_tensors(request.folder / HEAD_FILE), about, "token" if task in PER_TOKEN else "cls")
    numbers = about.get("label2id")
    named = {str(number): label for label, number in numbers.items()} if isinstance(numbers, Mapping) else {}
    return imported_hplm(pet, head, task, request, problem=PROBLEM_TYPES.get(kind), id2label=named)


def _head(weights: Mapping[str, Tensor], about: Mapping[str, Any], pooling: str) -> Head:
    """A head of one or two linear layers, with an activation between them."""
    layers: dict[int, dict[str, Tensor]] = {}
    for name, value in weights.items():
        match = _HEAD.fullmatch(name)
        if match is None:
            raise unsupported_adapter(f"{name[:120]} in {HEAD_FILE} is not a tensor of a supported head")
        layers.setdefault(int(match[1]), {})[match[2]] = value
    maps = [layers[number] for number in sorted(layers)]
    if len(maps) not in (1, 2) or about.get("layers") != len(maps):
        raise unsupported_adapter(
            f"the head has {len(maps)} layers in {HEAD_FILE} and {str(about.get('layers'))[:40]} in "
            f"{HEAD_CONFIG_FILE}. Both must be 1 or both must be 2"
        )
    if not all(one.keys() == {"weight", "bias"} for one in maps):
        raise unsupported_adapter(f"{HEAD_FILE}: each layer of the head must have a weight and a bias")
    activation = str(about.get("activation_function"))
    if len(maps) == 2 and activation not in ACTIVATIONS:
        raise unsupported_adapter(
            f"activation_function is {activation[:40]!r} in {HEAD_CONFIG_FILE}; it must be one of "
            f"{', '.join(ACTIVATIONS)}"
        )
    *first, last = ((tensors["weight"], tensors["bias"]) for tensors in maps)
    inner = HeadLayer(*first[0], cast("Activation", activation)) if first else None
    return Head(*last, "token" if pooling == "token" else "cls", inner)
