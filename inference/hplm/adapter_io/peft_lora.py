"""Reads the folder of a LoRA adapter that Hugging Face PEFT has saved: `adapter_config.json` and
`adapter_model.safetensors`, optionally `config.json` of the task model for its labels."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from inference.hplm.adapter_io.adapter_folder import (
    AdapterRequest,
    ImportedAdapter,
    LowerLayersChangedError,
    ModuleLocation,
    locate_module,
    read_tensors,
    strip_prefix,
    unsupported_adapter,
)
from inference.hplm.adapter_io.peft_config import CONFIG_FILE, WEIGHTS_FILE, PeftConfig
from inference.hplm.adapter_io.task_heads import (
    head_modules,
    head_weights,
    imported_hplm,
    read_head,
    read_model_config,
)
from inference.hplm.artifact_files import read_weights, to_float32
from inference.hplm.hplm import Hplm
from inference.hplm.pets.kinds import tensor_shapes
from inference.hplm.pets.spec import NORMS, PLACES, PetSpec, UpperShape
from inference.hplm.pets.weights import PetWeights
from inference.hplm.root import UPPER_FILE
from inference.hplm.root_config import RootConfig
from inference.text.tasks import QUESTION_ANSWERING, TAGGING, Task

TOKEN_TASKS: Final[Mapping[str, Task]] = {"TOKEN_CLS": TAGGING, "QUESTION_ANS": QUESTION_ANSWERING}
_FACTOR: Final = re.compile(r"(.+)\.lora_(?:([AB])(?:\.default)?\.weight|(embedding_[AB])(?:\.default)?)")
_PART: Final = re.compile(r"(.+)\.(weight|bias)")
Updates = dict[tuple[int, str], tuple[Tensor, Tensor]]


@dataclass(frozen=True, slots=True)
class _Update:
    """The factors A [r, in] and B [out, r] of a module with this full name in the task model."""

    module: str
    a: Tensor
    b: Tensor
    of_embeddings: bool

    @property
    def is_zero(self) -> bool:
        return not (bool(self.a.any()) and bool(self.b.any()))

    def scaled(self, into: int, out: int, about: PeftConfig) -> tuple[Tensor, Tensor]:
        """(A, B with the scaling) for a linear layer of these sizes. Raises HplmError for other shapes."""
        rank = about.rank(self.module)
        if tuple(self.a.shape) != (rank, into) or tuple(self.b.shape) != (out, rank):
            shapes = f"{tuple(self.a.shape)} and {tuple(self.b.shape)}"
            raise unsupported_adapter(
                f"{self.module}: lora_A and lora_B have shapes {shapes}; expected ({rank}, {into}) and "
                f"({out}, {rank})"
            )
        return self.a, self.b * about.scaling(self.module, rank)


def read_peft(request: AdapterRequest, config: RootConfig) -> ImportedAdapter:
    """The hPLM with the adapter's changes of the upper layers.

    Raises HplmError for what cannot be imported, such as LowerLayersChangedError.
    """
    about = PeftConfig.read(request.folder / CONFIG_FILE)
    factors, others = _split_factors(read_tensors(request.folder / WEIGHTS_FILE), config)
    updates = _updates(factors, about, config)
    dropped: list[str] = []
    changes = _encoder_changes(updates, about, config, dropped)
    encoder = {name: value for name, value in others.items() if _tensor_location(name, config) is not None}
    shifts = _shifts(encoder, config, request.root, dropped)
    if dropped and not request.drop_lower:
        raise LowerLayersChangedError(tuple(dropped))
    rest = {name: value for name, value in others.items() if name not in encoder}
    in_head = {module: update for module, update in updates.items() if locate_module(module, config) is None}
    hplm = _with_head(_pet(changes, shifts, config), rest, in_head, about, request, config)
    return ImportedAdapter(hplm, tuple(dropped), about.provenance())


def _split_factors(
    weights: Mapping[str, Tensor], config: RootConfig
) -> tuple[dict[str, dict[str, Tensor]], dict[str, Tensor]]:
    """The factors by the module's full name in the task model and "A", "B", "embedding_A" or "embedding_B";
    and all other tensors, by names without prefixes."""
    factors: dict[str, dict[str, Tensor]] = {}
    others: dict[str, Tensor] = {}
    for name in sorted(weights):
        full = name.removeprefix("base_model.model.")
        if ".original_module." in full:
            continue
        full = full.replace(".modules_to_save.default.", ".").replace(".modules_to_save.", ".")
        full = full.replace(".base_layer.", ".")
        match = _FACTOR.fullmatch(full)
        if match:
            factors.setdefault(match[1], {})[match[2] or match[3]] = weights[name]
        elif "lora_" in full:
            raise unsupported_adapter(
                f"{full[:120]} in {WEIGHTS_FILE} is not supported. Only LoRA on linear layers can be imported"
            )
        else:
            others[strip_prefix(full, config)] = weights[name]
    return factors, others


def _updates(
    factors: Mapping[str, Mapping[str, Tensor]], about: PeftConfig, config: RootConfig
) -> dict[str, _Update]:
    """The updates by the module's name without the encoder's prefix."""
    found: dict[str, _Update] = {}
    for module, pair in factors.items():
        of_embeddings = "A" not in pair and "B" not in pair
        names = ("embedding_A", "embedding_B") if of_embeddings else ("A", "B")
        a, b = map(pair.get, names)
        if a is None or b is None:
            missing = names[0 if a is None else 1] + ("" if of_embeddings else ".weight")
            raise unsupported_adapter(f"{module[:120]}.lora_{missing} is missing in {WEIGHTS_FILE}")
        about.check_target(module)
        plain = strip_prefix(module, config)
        if plain in found:
            raise unsupported_adapter(
                f"{module[:120]} is changed twice, under two names. Keep the tensors of one name"
            )
        found[plain] = _Update(module, a, b, of_embeddings)
    return found


def _encoder_changes(
    updates: Mapping[str, _Update], about: PeftConfig, config: RootConfig, dropped: list[str]
) -> Updates:
    """(a [r, in], b [out, r] with the scaling) by upper layer and place. Names of non-zero updates below the
    cut are appended to `dropped`."""
    found: Updates = {}
    shape = _upper_shape(config)
    for name, update in updates.items():
        place = locate_module(name, config)
        if place is None:
            continue
        if place.layer is None:
            if not update.is_zero:
                dropped.append(name)
            continue
        if place.part not in PLACES or update.of_embeddings:
            raise unsupported_adapter(
                f"{update.module[:120]} is not a linear layer of this root ({config.family})"
            )
        _check_layer(place, update.module, config)
        found[place.layer, place.part] = update.scaled(*shape.sizes(place.part), about)
    return found


def _check_layer(place: ModuleLocation, module: str, config: RootConfig) -> None:
    if place.layer is not None and place.layer >= config.upper:
        raise unsupported_adapter(
            f"{module} does not exist in this root, which has layers 0 to {config.layers - 1}"
        )


def _tensor_location(name: str, config: RootConfig) -> ModuleLocation | None:
    """The location of a weight or bias that is not a LoRA factor; None if it is not in the encoder."""
    match = _PART.fullmatch(name)
    return locate_module(match[1], config) if match else None


def _shifts(
    encoder: Mapping[str, Tensor], config: RootConfig, root: Path, dropped: list[str]
) -> dict[tuple[int, str], Tensor]:
    """The differences of biases and layer norms of the upper layers from the root's, by layer and name of the
    PET's tensor."""
    found: dict[tuple[int, str], Tensor] = {}
    own = to_float32(read_weights(root / UPPER_FILE)) if encoder else {}
    for name, value in encoder.items():
        place = _tensor_location(name, config)
        assert place is not None
        end = name.rpartition(".")[2]
        if place.layer is None:
            dropped.append(name)
            continue
        _check_layer(place, name, config)
        if place.part in PLACES and end == "bias":
            ours = f"bias.{place.part}"
        elif place.part.removesuffix("_norm") in NORMS and place.part.endswith("_norm"):
            ours = f"norm.{place.part.removesuffix('_norm')}.{end}"
        else:
            raise unsupported_adapter(
                f"{name[:120]} was fully trained. In the encoder, only LoRA updates, biases and layer norms "
                "can be imported"
            )
        base = own[f"layers.{place.layer}.{place.part}.{end}"]
        if base.shape != value.shape:
            raise unsupported_adapter(f"{name} has shape {tuple(value.shape)}; expected {tuple(base.shape)}")
        found[place.layer, ours] = value - base
    return found


def _pet(updates: Updates, shifts: Mapping[tuple[int, str], Tensor], config: RootConfig) -> PetWeights:
    """The PET: smaller ranks are padded with zeros, and unchanged parameters have a difference of zero."""
    shape = _upper_shape(config)
    spec = PetSpec(
        lora=max((len(a) for a, _ in updates.values()), default=0),
        lora_places=tuple(place for place in PLACES if any(at == place for _, at in updates)) or PLACES,
        biases=any(name.startswith("bias.") for _, name in shifts),
        norms=any(name.startswith("norm.") for _, name in shifts),
    )
    weights = {name: torch.zeros(size) for name, size in tensor_shapes(spec, shape)}
    for (layer, place), (a, b) in updates.items():
        weights[f"lora.{place}.a"][layer, : len(a)] = a
        weights[f"lora.{place}.b"][layer, :, : len(a)] = b
    for (layer, name), value in shifts.items():
        weights[name][layer] = value
    return PetWeights(spec, shape, weights)


def _with_head(
    pet: PetWeights,
    rest: Mapping[str, Tensor],
    updates: Mapping[str, _Update],
    about: PeftConfig,
    request: AdapterRequest,
    config: RootConfig,
) -> Hplm:
    kind, said = about.task_type, read_model_config(request)
    if kind not in TOKEN_TASKS and kind != "SEQ_CLS":
        raise unsupported_adapter(
            f"task_type is {kind[:40]!r}, which has no prediction head. Train the adapter with SEQ_CLS, "
            "TOKEN_CLS or QUESTION_ANS"
        )
    task: Task = TOKEN_TASKS.get(kind, "classification")
    head = read_head(_merged(rest, updates, task, about, request, config), task, config)
    return imported_hplm(
        pet, head, task, request, problem=said.get("problem_type"), id2label=said.get("id2label")
    )


def _merged(
    rest: Mapping[str, Tensor],
    updates: Mapping[str, _Update],
    task: Task,
    about: PeftConfig,
    request: AdapterRequest,
    config: RootConfig,
) -> dict[str, Tensor]:
    """The head's own weights, with the updates of its linear layers added."""
    weights = head_weights(rest, task, config, request.root)
    for name, update in updates.items():
        if name not in head_modules(task, config) or update.of_embeddings:
            raise unsupported_adapter(
                f"{update.module[:120]} is not a linear layer of this root ({config.family}) or of a "
                f"{about.task_type} head. Leave it out of target_modules"
            )
        weight = weights[f"{name}.weight"]
        if weight.dim() != 2:
            raise unsupported_adapter(
                f"{name}.weight has shape {tuple(weight.shape)}; expected two dimensions"
            )
        a, b = update.scaled(weight.shape[1], weight.shape[0], about)
        weights[f"{name}.weight"] = weight + b @ a
    return weights


def _upper_shape(config: RootConfig) -> UpperShape:
    return UpperShape(config.upper, config.hidden, config.architecture.inner)
