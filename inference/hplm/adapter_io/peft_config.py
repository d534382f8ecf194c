"""Reads the `adapter_config.json` of a LoRA that Hugging Face PEFT has saved, as hostile input."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from inference.hplm.adapter_io.adapter_folder import read_adapter_json, unsupported_adapter
from inference.hplm.adapter_io.name_patterns import check_patterns, name_pattern
from inference.hplm.hplm import MAX_RANK

CONFIG_FILE: Final = "adapter_config.json"
WEIGHTS_FILE: Final = "adapter_model.safetensors"
MAX_ALPHA: Final = 1e6
USED_CONFIG: Final = frozenset(
    {"peft_type", "task_type", "r", "lora_alpha", "rank_pattern", "alpha_pattern", "use_rslora", "bias"}
)
IGNORED_CONFIG: Final = frozenset(
    {
        "arrow_config", "auto_mapping", "base_model_name_or_path", "corda_config",
        "ensure_weight_tying", "ephemeral_gpu_offload", "eva_config", "exclude_modules", "fan_in_fan_out",
        "inference_mode", "init_lora_weights", "layers_pattern", "layers_to_transform", "loftq_config",
        "lora_dropout", "lora_ga_config", "megatron_core", "modules_to_save", "peft_version",
        "qalora_group_size", "revision", "runtime_config", "target_modules",
    }
)  # fmt: skip
"""Fields that do not change what the adapter computes."""
UNSUPPORTED_VARIANTS: Final[Mapping[str, str]] = {
    "use_dora": "DoRA",
    "use_qalora": "QALoRA",
    "use_bdlora": "BD-LoRA",
}
WEIGHT_PRESERVING_INITS: Final = ("gaussian", "eva", "orthogonal")
"""Initializations that leave the checkpoint's weights unchanged. Others subtract the update from them."""


@dataclass(frozen=True, slots=True)
class PeftConfig:
    """The fields of the file, for plain LoRA."""

    fields: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> "PeftConfig":
        """Raises HplmError(invalid_archive) for anything that is not plain LoRA, such as DoRA, and for
        unknown fields."""
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

    def rank(self, module: str) -> int:
        """The rank of a module's update, from 1 to MAX_RANK."""
        rank = self._pattern_value("rank_pattern", module, self.fields.get("r"))
        if type(rank) is not int or not 1 <= rank <= MAX_RANK:
            raise unsupported_adapter(
                f"{module}: the rank is {str(rank)[:40]}; it must be an integer from 1 to {MAX_RANK}"
            )
        return rank

    def scaling(self, module: str, rank: int) -> float:
        """The factor of a module's update."""
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
        """The value of the first pattern that matches the end of the module's name, or the default."""
        for pattern, value in (self.fields.get(name) or {}).items():
            if name_pattern(pattern).matches(module):
                return value
        return otherwise


def _check(about: Mapping[str, Any]) -> None:
    if about.get("peft_type") != "LORA":
        raise unsupported_adapter(
            f"peft_type is {str(about.get('peft_type'))[:40]!r}. Only LORA adapters can be imported"
        )
    for name, value in about.items():
        if value and name in UNSUPPORTED_VARIANTS:
            raise unsupported_adapter(
                f"{UNSUPPORTED_VARIANTS[name]} is not supported ({name} is set in {CONFIG_FILE}). Train the "
                "adapter as plain LoRA"
            )
        if value and name not in USED_CONFIG | IGNORED_CONFIG:
            raise unsupported_adapter(
                f"{name[:60]!r} is set in {CONFIG_FILE}, but is not supported. Train the adapter without it"
            )
    for name in ("rank_pattern", "alpha_pattern"):
        check_patterns(about.get(name) or {}, name)
    started = about.get("init_lora_weights", True)
    if isinstance(started, str) and started not in WEIGHT_PRESERVING_INITS:
        raise unsupported_adapter(
            f"init_lora_weights is {started[:40]!r} in {CONFIG_FILE}, which changes the weights of the base "
            "model. Convert the adapter to plain LoRA when you save it "
            "(path_initial_model_for_weight_conversion)"
        )
