"""Reads the `adapter_config.json` of a LoRA that Hugging Face PEFT has saved, as hostile input."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import regex

from inference.hplm.adapter_io.adapter_folder import read_adapter_json, unsupported_adapter
from inference.hplm.hplm import MAX_RANK

CONFIG_FILE: Final = "adapter_config.json"
WEIGHTS_FILE: Final = "adapter_model.safetensors"
MAX_ALPHA: Final = 1e6
MAX_PATTERNS: Final = 512
"""Patterns of one object. PEFT writes at most one for each linear layer."""
MATCH_TIMEOUT_S: Final = 1.0
"""For one match. An uploaded expression may take exponential time."""
ALL_LINEAR: Final = "all-linear"
BIASES: Final = (None, "none", "all", "lora_only")
WEIGHT_PRESERVING_INITS: Final = ("gaussian", "eva", "orthogonal", "mica")
"""Initializations that leave the checkpoint's weights unchanged. Others subtract the update from them."""


@dataclass(frozen=True, slots=True)
class _Field:
    """Which values of a field can be imported, and what to do about others."""

    accepts: Callable[[Any], bool]
    otherwise: str


def _is_names(value: Any) -> bool:
    return (
        value is None
        or isinstance(value, str)
        or (isinstance(value, list) and all(isinstance(name, str) for name in value))
    )


def _is_layers(value: Any) -> bool:
    layers = value if isinstance(value, list) else [value]
    return value is None or all(type(layer) is int for layer in layers)


def _variant(name: str) -> _Field:
    """A field that turns on another kind of LoRA, unless it is null or false. An empty object does, too."""
    return _Field(
        lambda value: value is None or value is False,
        f"{name} is not supported. Train the adapter as plain LoRA",
    )


ANY: Final = _Field(lambda _: True, "")
OFF: Final = _Field(lambda value: not value, "This is not supported. Train the adapter without it")
NAMES: Final = _Field(_is_names, "It must be a string or a list of strings")
FIELDS: Final[Mapping[str, _Field]] = {
    "peft_type": _Field(lambda value: value == "LORA", "Only LORA adapters can be imported"),
    # Read and checked where they are used.
    **dict.fromkeys(("task_type", "r", "lora_alpha", "rank_pattern", "alpha_pattern", "use_rslora"), ANY),
    # The modules with LoRA.
    **dict.fromkeys(("target_modules", "exclude_modules", "layers_pattern"), NAMES),
    "layers_to_transform": _Field(_is_layers, "It must be an integer or a list of integers"),
    # The tensors show which biases and modules were trained.
    "bias": _Field(lambda value: value in BIASES, "It must be none, all or lora_only"),
    "modules_to_save": NAMES,
    # Used in training only.
    **dict.fromkeys(("corda_config", "eva_config", "loftq_config", "lora_dropout", "lora_ga_config"), ANY),
    "init_lora_weights": _Field(
        lambda value: not isinstance(value, str) or value.lower() in WEIGHT_PRESERVING_INITS,
        "This changes the weights of the base model. Convert the adapter to plain LoRA when you save it "
        "(path_initial_model_for_weight_conversion)",
    ),
    # PEFT corrects it for each module.
    "fan_in_fan_out": ANY,
    # About files, devices, and modules or variants that are refused.
    **dict.fromkeys(
        (
            "auto_mapping", "base_model_name_or_path", "ensure_weight_tying", "ephemeral_gpu_offload",
            "inference_mode", "megatron_core", "merge_weights", "peft_version", "qalora_group_size",
            "revision", "runtime_config",
        ),
        ANY,
    ),
    "use_dora": _variant("DoRA"),
    "use_qalora": _variant("QALoRA"),
    "use_bdlora": _variant("BD-LoRA"),
    "alora_invocation_tokens": _variant("Activated LoRA"),
    "arrow_config": _variant("Arrow"),
    "kasa_config": _variant("KaSA"),
    "megatron_config": _variant("LoRA for Megatron"),
    "monteclora_config": _variant("MonteCLoRA"),
    "velora_config": _variant("VeLoRA"),
    **dict.fromkeys(("layer_replication", "lora_bias", "target_parameters", "trainable_token_indices"), OFF),
}  # fmt: skip
"""The fields of all PEFT versions, and their values that can be imported. Unknown fields must be OFF."""


@dataclass(frozen=True, slots=True)
class PeftConfig:
    """The fields of the file, for plain LoRA."""

    fields: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> "PeftConfig":
        """Raises HplmError(invalid_archive) for anything that is not plain LoRA, such as DoRA, and for
        unsupported fields that would change the outputs."""
        fields = read_adapter_json(path)
        _check(fields)
        return cls(fields)

    @property
    def task_type(self) -> str:
        """The kind of head, such as "SEQ_CLS"; "None" if the file does not define it."""
        return str(self.fields.get("task_type"))

    def provenance(self) -> dict[str, Any]:
        """The base model and the PEFT version, as the file names them."""
        names = ("base_model_name_or_path", "peft_version")
        return {"format": "peft", **{name: self.fields.get(name) for name in names}}

    def check_target(self, module: str) -> None:
        """Raise HplmError if PEFT gives this module no LoRA, and would ignore its tensors."""
        if field := self.omitted_by(module):
            raise unsupported_adapter(
                f"{module[:120]} has LoRA in {WEIGHTS_FILE}, but {field} in {CONFIG_FILE} omits it. PEFT "
                "would ignore these tensors. Save the adapter with PEFT again"
            )

    def omitted_by(self, module: str) -> str:
        """The field by which PEFT gives a module no LoRA, or "" if the module gets LoRA.

        `module`: its full name in the task model.
        """
        excluded, targets = self.fields.get("exclude_modules"), self.fields.get("target_modules")
        if excluded and _is_named(module, excluded, "exclude_modules"):
            return "exclude_modules"
        if targets is None or (isinstance(targets, str) and targets.lower() == ALL_LINEAR):
            return ""
        if not _is_named(module, targets, "target_modules"):
            return "target_modules"
        if isinstance(targets, str) or module in targets or self._has_lora_in_layer(module):
            return ""
        return "layers_to_transform"

    def _has_lora_in_layer(self, module: str) -> bool:
        layers, pattern = self.fields.get("layers_to_transform"), self.fields.get("layers_pattern")
        if layers is None or layers == []:
            return True
        patterns = [pattern] if isinstance(pattern, str) and pattern else pattern or []
        expressions = [rf"(?:^|.*?\.){one}\.(?P<number>\d+)\." for one in patterns]
        for expression in expressions or [r".*?\.[^.]*\.(?P<number>\d+)\."]:
            if found := _match(expression, module, "layers_pattern"):
                # As text: an uploaded expression with alternatives may match without a number.
                return found["number"] in map(str, layers if isinstance(layers, list) else [layers])
        return False

    def rank(self, module: str) -> int:
        """The rank of a module's update, from 1 to MAX_RANK. `module`: its full name in the task model."""
        rank = self._pattern_value("rank_pattern", module, self.fields.get("r"))
        if type(rank) is not int or not 1 <= rank <= MAX_RANK:
            raise unsupported_adapter(
                f"{module}: the rank is {str(rank)[:40]}; it must be an integer from 1 to {MAX_RANK}"
            )
        return rank

    def scaling(self, module: str, rank: int) -> float:
        """The factor of a module's update. `module`: its full name in the task model."""
        alpha = self._pattern_value("alpha_pattern", module, self.fields.get("lora_alpha"))
        # False for NaN, and for whole numbers that no float can hold.
        is_number = isinstance(alpha, int | float) and not isinstance(alpha, bool)
        if not is_number or not abs(alpha) <= MAX_ALPHA:
            raise unsupported_adapter(
                f"{module}: lora_alpha is {str(alpha)[:40]}; it must be a number from {-MAX_ALPHA:,.0f} to "
                f"{MAX_ALPHA:,.0f}"
            )
        return float(alpha) / (math.sqrt(rank) if self.fields.get("use_rslora") else rank)

    def _pattern_value(self, name: str, module: str, otherwise: Any) -> Any:
        """The value of the first pattern that matches, as in `peft.utils.get_pattern_key`, or the default."""
        for pattern, value in (self.fields.get(name) or {}).items():
            if _match(rf"(.*\.)?({pattern})$", module, name):
                return value
        return otherwise


def _check(fields: Mapping[str, Any]) -> None:
    # The kind is always checked. An adapter of another kind has other fields.
    for name, value in {"peft_type": fields.get("peft_type"), **fields}.items():
        field = FIELDS.get(name, OFF)
        if not field.accepts(value):
            raise unsupported_adapter(f"{name[:60]} is {str(value)[:40]!r}. {field.otherwise}")
    for name in ("rank_pattern", "alpha_pattern"):
        patterns = fields.get(name) or {}
        if not isinstance(patterns, Mapping):
            raise unsupported_adapter(f"{name} must be an object")
        if len(patterns) > MAX_PATTERNS:
            raise unsupported_adapter(f"{name} has {len(patterns):,} patterns; the maximum is {MAX_PATTERNS}")


def _is_named(module: str, names: str | Sequence[str], field: str) -> bool:
    """Whether a regular expression matches the whole name, or a list has the name or its end after a dot."""
    if isinstance(names, str):
        return _match(names, module, field, matcher=regex.fullmatch) is not None
    return any(module == name or module.endswith(f".{name}") for name in names)


def _match(expression: str, module: str, field: str, matcher: Callable[..., Any] = regex.match) -> Any | None:
    """As `re.match`. Raises HplmError for an expression of the field that is invalid or takes too long."""
    try:
        return matcher(expression, module, timeout=MATCH_TIMEOUT_S)
    except (regex.error, TimeoutError, RecursionError) as error:
        raise unsupported_adapter(
            f"{field}: the pattern {expression[:80]!r} cannot be used: {error}"
        ) from error
