"""Reads and writes the folders in which Hugging Face PEFT keeps the LoRA of a decoder:
`adapter_config.json` and `adapter_model.safetensors`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from inference.decoder.architecture import DecoderArchitecture
from inference.decoder.families import DECODER_FAMILIES
from inference.decoder.family import DecoderFamily
from inference.decoder.lora import DecoderLora
from inference.hplm.adapter_io.adapter_folder import UNSUPPORTED, read_tensors, unsupported_adapter
from inference.hplm.adapter_io.peft_config import CONFIG_FILE, WEIGHTS_FILE, PeftConfig
from inference.hplm.artifact_files import write_json, write_weights

PREFIX: Final = "base_model.model."
TASK_TYPES: Final = ("CAUSAL_LM", "FEATURE_EXTRACTION", "None")
"""Those without a head of their own."""
_FACTOR: Final = re.compile(r"(.+)\.lora_([AB])(?:\.default)?\.weight")
Factors = dict[tuple[int, str], tuple[Tensor, Tensor]]
"""A [in, rank] and B [rank, out] by layer and projection."""


@dataclass(frozen=True, slots=True)
class ImportedLora:
    """The LoRA of a folder, float32, and the folder's metadata, such as the base model.

    A LoRA whose `lowest_layer` is below the cut changes layers that tables replace: it must be served at the
    level `full`.
    """

    lora: DecoderLora
    about: Mapping[str, Any] = field(default_factory=dict)


def read_peft_lora(folder: Path, architecture: DecoderArchitecture) -> ImportedLora:
    """Read a LoRA on any projections of any layers, with one rank and alpha or with patterns of them.

    The folder is hostile input. Raises HplmError(invalid_archive) for damaged or missing files, for anything
    that is not plain LoRA on the projections of this decoder (DoRA, other kinds of PEFT, embeddings, heads,
    biases), and for factors of other shapes.
    """
    config = PeftConfig.read(folder / CONFIG_FILE)
    if config.task_type not in TASK_TYPES:
        raise unsupported_adapter(
            f"task_type is {config.task_type[:40]!r}. For a decoder root, it must be CAUSAL_LM"
        )
    pairs = _paired_factors(read_tensors(folder / WEIGHTS_FILE))
    modules = _modules_by_name(architecture)
    found: Factors = {}
    for module, (a, b) in pairs.items():
        place = modules.get(module)
        if place is None:
            raise unsupported_adapter(
                f"{module[:120]} is not a projection of this decoder ({architecture.family}, "
                f"{architecture.layers} layers). Leave it out of target_modules"
            )
        config.check_target(module)
        factors = place.split(a, b, config, module, architecture)
        if factors.keys() & found.keys():
            raise unsupported_adapter(
                f"{module[:120]} is changed twice, under two names. Keep the tensors of one name"
            )
        found |= factors
    return ImportedLora(DecoderLora.of(found, architecture, UNSUPPORTED), config.provenance())


def write_peft_lora(lora: DecoderLora, architecture: DecoderArchitecture, base_model: str, out: Path) -> None:
    """Write a folder, new or empty, that `peft` loads on the checkpoint `base_model`, with float32 factors.

    The scaling is in B, so alpha equals the rank. Projections that the checkpoint fuses become one update
    whose rank is the sum of theirs, or their own rank where they share A. Raises HplmError(invalid_archive)
    for a PET with adapters.
    """
    if lora.has_adapters:
        raise unsupported_adapter(
            "it has bottleneck adapters, which PEFT does not support. Use the archive format"
        )
    out.mkdir(parents=True, exist_ok=True)
    factors: Factors = {key: (a.float(), b.float()) for key, (a, b) in lora.tensors.items()}
    tensors: dict[str, Tensor] = {}
    ranks: dict[str, int] = {}
    for name, place in _modules_by_name(architecture).items():
        joined = place.join(factors, architecture)
        if joined is not None and name.startswith(_family(architecture).prefix):
            a, b = joined
            tensors[f"{PREFIX}{name}.lora_A.weight"], tensors[f"{PREFIX}{name}.lora_B.weight"] = a.t(), b.t()
            ranks[name] = a.shape[1]
    write_weights(out / WEIGHTS_FILE, tensors)
    usual = max(sorted(set(ranks.values())), key=list(ranks.values()).count)
    others = {name: rank for name, rank in ranks.items() if rank != usual}
    write_json(
        out / CONFIG_FILE,
        {
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "base_model_name_or_path": base_model,
            "inference_mode": True,
            "r": usual,
            "lora_alpha": usual,
            "rank_pattern": others,
            "alpha_pattern": others,
            "lora_dropout": 0.0,
            "bias": "none",
            "fan_in_fan_out": _family(architecture).transposed,
            "target_modules": sorted(ranks),
        },
    )


@dataclass(frozen=True, slots=True)
class _Module:
    """A linear module of the checkpoint: one projection of a layer, or several that are fused."""

    layer: int
    projections: tuple[str, ...]

    def split(
        self, a: Tensor, b: Tensor, config: PeftConfig, module: str, architecture: DecoderArchitecture
    ) -> Factors:
        """Our factors of PEFT's A [rank, in] and B [out, rank]. Raises HplmError(invalid_archive)."""
        shapes = [architecture.projection_shape(name) for name in self.projections]
        inputs, outputs = shapes[0][0], [out for _, out in shapes]
        rank = config.rank(module)
        if tuple(a.shape) != (rank, inputs) or tuple(b.shape) != (sum(outputs), rank):
            raise unsupported_adapter(
                f"{module}: lora_A and lora_B have shapes {tuple(a.shape)} and {tuple(b.shape)}; expected "
                f"({rank}, {inputs}) and ({sum(outputs)}, {rank})"
            )
        scaled = torch.split(b * config.scaling(module, rank), outputs)
        return {
            (self.layer, name): (a.t(), part.t()) for name, part in zip(self.projections, scaled, strict=True)
        }

    def join(self, factors: Factors, architecture: DecoderArchitecture) -> tuple[Tensor, Tensor] | None:
        """A [in, rank] and B [rank, out] of the whole module; None if no projection of it is changed."""
        outputs = [architecture.projection_shape(name)[1] for name in self.projections]
        found = [factors.get((self.layer, name)) for name in self.projections]
        changed = [pair for pair in found if pair is not None]
        if not changed:
            return None
        first = changed[0][0]
        if len(changed) == len(found) and all(torch.equal(a, first) for a, _ in changed):
            return first, torch.cat([b for _, b in changed], dim=1)
        blocks = [
            pair[1] if pair is not None else first.new_zeros(0, width)
            for pair, width in zip(found, outputs, strict=True)
        ]
        joined: Tensor = torch.block_diag(*blocks)  # type: ignore[no-untyped-call]
        return torch.cat([a for a, _ in changed], dim=1), joined


def _family(architecture: DecoderArchitecture) -> DecoderFamily:
    return DECODER_FAMILIES[architecture.family]


def _modules_by_name(architecture: DecoderArchitecture) -> dict[str, _Module]:
    """The modules by their names in a checkpoint with a head, and in one without."""
    family = _family(architecture)
    projections = architecture.projections
    names: dict[str, tuple[str, ...]] = {
        theirs: (ours,) for ours, theirs in family.layer_names.items() if ours in projections
    }
    names |= family.fused
    return {
        prefix + family.layer.format(layer) + name: _Module(layer, parts)
        for prefix in (family.prefix, "")
        for layer in range(architecture.layers)
        for name, parts in names.items()
    }


def _paired_factors(weights: Mapping[str, Tensor]) -> dict[str, tuple[Tensor, Tensor]]:
    """PEFT's A and B by the module's name in the checkpoint. Raises HplmError(invalid_archive)."""
    factors: dict[str, dict[str, Tensor]] = {}
    for name in sorted(weights):
        match = _FACTOR.fullmatch(name.removeprefix(PREFIX))
        if match is None:
            raise unsupported_adapter(
                f"{name[:120]} in {WEIGHTS_FILE} is not supported. Only LoRA on linear layers can be "
                "imported, without changes of embeddings, lm_head, biases or modules_to_save"
            )
        factors.setdefault(match[1], {})[match[2]] = weights[name]
    for module, pair in factors.items():
        if len(pair) < 2:
            missing = "lora_B" if "A" in pair else "lora_A"
            raise unsupported_adapter(f"{module[:120]}.{missing}.weight is missing in {WEIGHTS_FILE}")
    return {module: (pair["A"], pair["B"]) for module, pair in factors.items()}
