"""The settings of jobs that users can set, with their types, bounds and defaults."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from tenants.base.errors import ErrorCode, HmiError
from versiontree.jobs.models import JobKind
from versiontree.tree.root_kind import RootKind

SettingValue = int | float | bool | str

DEFAULT_ALPHA: Final = 50.0
"""The default coverage of a PLOT in %. About 0.4% of the fragments cover half of the occurrences."""

DEFAULT_VECTORS: Final = "float16"
"""The default number format of a PLOT's vectors."""

DEFAULT_EPOCHS: Final = 8
"""Epochs of a fine-tuning without `epochs`, unless `min_steps` needs more."""


@dataclass(frozen=True, slots=True)
class SettingSpec:
    """The type, default and valid values of a setting: a number with inclusive bounds, a bool, or a choice.

    ``default`` is that of the training code, None if it depends on the checkpoint.
    """

    type: type[int] | type[float] | type[bool] | type[str]
    default: int | float | bool | str | None = None
    min_value: float = 0
    max_value: float = 1
    choices: tuple[str, ...] = ()
    help: str = ""

    def validate(self, value: object, param: str) -> SettingValue:
        """The value, converted to the spec's type. Raises ``invalid_field`` with the valid values."""
        if self.type is bool:
            is_valid, valid_values = isinstance(value, bool), "true or false"
        elif self.type is str:
            is_valid, valid_values = value in self.choices, f"one of {', '.join(self.choices)}"
        else:
            types = (int,) if self.type is int else (int, float)
            # NaN fails the comparison. A bool is an int in Python, but not a valid number here.
            is_number = isinstance(value, types) and not isinstance(value, bool)
            is_valid = is_number and self.min_value <= cast("float", value) <= self.max_value
            kind = "an integer" if self.type is int else "a number"
            valid_values = f"{kind} from {self.min_value:g} to {self.max_value:g}"
        if not is_valid:
            raise HmiError(ErrorCode.INVALID_FIELD, f"This must be {valid_values}.", param=param)
        return self.type(cast("Any", value))


def _integer(default: int | None, min_value: float, max_value: float, help_text: str = "") -> SettingSpec:
    return SettingSpec(int, default, min_value, max_value, help=help_text)


def _rate(default: float) -> SettingSpec:
    return SettingSpec(float, default, 1e-6, 1.0, help="The highest learning rate.")


_SEED = _integer(0, 0, 2**31 - 1, "Seed of the random numbers.")

ADAPTER_SPECS: Final = {
    "adapter": _integer(0, 0, 1024, "Width of an adapter after the attention. 0: none."),
    "output_adapter": _integer(0, 0, 1024, "Width of an adapter after the feed-forward block. 0: none."),
}

SETTING_SPECS: Final[dict[JobKind, dict[str, SettingSpec]]] = {
    JobKind.CONVERT: {
        "lower_layers": _integer(None, 1, 64, "Layers that the table replaces. Default: half of them."),
        "n": _integer(3, 2, 5, "Tokens in a fragment."),
        "max_tokens": _integer(
            None, 8, 4096, "Maximum tokens per text. Default: the limit of the checkpoint."
        ),
        "ridge_tokens": _integer(60_000, 1_000, 10**9, "Tokens for the closed form."),
        "distil_tokens": _integer(1_100_000, 0, 10**10, "Tokens for the distillation."),
        "distil_minutes": SettingSpec(
            float, None, 0.1, 10_000, help="Duration of the distillation, instead of a number of tokens."
        ),
        "learning_rate": _rate(6e-4),
        "seed": _SEED,
    },
    JobKind.FURTHER_PRETRAIN: {
        "tokens": _integer(300_000, 0, 10**10, "Tokens of the corpus to train on."),
        "minutes": SettingSpec(
            float, None, 0.1, 10_000, help="Duration of the training, instead of a number of tokens."
        ),
        "head_tokens": _integer(
            150_000, 0, 10**10, "Tokens to train a language model head, if the root has none."
        ),
        "distillation_weight": SettingSpec(
            float, 20.0, 0, 1_000, help="Weight of the error against the original layers in the loss."
        ),
        "learning_rate": _rate(3e-4),
        "seed": _SEED,
    },
    JobKind.BUILD_PLOT: {
        "vectors": SettingSpec(
            str, DEFAULT_VECTORS, choices=("float16", "int8"), help="int8 takes half the space."
        ),
    },
    JobKind.FINE_TUNE: {
        "lora": _integer(16, 0, 256, "Rank of LoRA in every linear layer. 0: none."),
        **ADAPTER_SPECS,
        "biases": SettingSpec(bool, True, help="Train the biases of the upper layers."),
        "norms": SettingSpec(bool, True, help="Train the layer norms of the upper layers."),
        "pooling": SettingSpec(
            str,
            "cls_mean",
            choices=("cls", "cls_mean"),
            help="Input of the head: the first token, with or without the mean. Not for tagging.",
        ),
        "learning_rate": _rate(2e-3),
        "trials": _integer(1, 1, 3, "Tries this learning rate, half of it and twice of it."),
        "epochs": _integer(
            None, 1, 100, f"Exact number. Default: {DEFAULT_EPOCHS}, or more to reach the minimum steps."
        ),
        "batch_size": _integer(16, 1, 512, "Rows in a batch."),
        "patience": _integer(8, 1, 100, "Stop after this many epochs without a better dev metric."),
        "min_steps": _integer(
            200, 0, 10**6, "Small datasets are repeated until this many steps. Ignored if epochs is set."
        ),
        "max_epochs": _integer(30, 1, 1000, "Maximum number of epochs. Ignored if epochs is set."),
        "dropout": SettingSpec(
            float, 0.1, 0, 0.9, help="Dropout of the states at the cut and of the head's input."
        ),
        "full_context_share": SettingSpec(
            float,
            0.5,
            0,
            1,
            help="Share of the texts that are read with full context, not through the table.",
        ),
        "balance_classes": SettingSpec(bool, False, help="Weight rare classes more in the loss."),
        "seed": _SEED,
    },
    JobKind.EVALUATE: {},
    JobKind.COMPACT: {},
}

LORA_PROJECTIONS: Final[dict[str, tuple[str, ...]]] = {
    "all": ("query", "key", "value", "output", "gate", "up", "down"),
    "attention": ("query", "key", "value", "output"),
    "query_value": ("query", "value"),
}
"""The linear maps of each choice of ``projections``. Those that a decoder does not have are left out."""

DECODER_SETTING_SPECS: Final[dict[JobKind, dict[str, SettingSpec]]] = {
    JobKind.CONVERT: {
        "lower_layers": _integer(
            None, 0, 255, "Layers below the cut, which are not trained. Default: a third of them."
        ),
    },
    JobKind.FINE_TUNE: {
        "lora": _integer(16, 0, 256, "Rank of LoRA. 0: none."),
        "alpha": SettingSpec(
            float, None, 0, 4096, help="Updates are scaled by alpha / rank. Default: twice the rank."
        ),
        "projections": SettingSpec(
            str, "all", choices=tuple(LORA_PROJECTIONS), help="The linear maps that get LoRA."
        ),
        **ADAPTER_SPECS,
        "learning_rate": _rate(1e-3),
        "epochs": _integer(5, 1, 100, "Maximum number of epochs."),
        "patience": _integer(2, 1, 100, "Stop after this many epochs without a lower dev loss."),
        "batch_tokens": _integer(1024, 16, 2**17, "Maximum tokens per batch."),
        "batch_size": _integer(None, 1, 512, "Maximum rows per batch. Default: no limit."),
        "max_tokens": _integer(1024, 16, 2**17, "Maximum tokens per row. Longer rows are truncated."),
        "dropout": SettingSpec(float, 0.0, 0, 0.9, help="Dropout of the inputs of LoRA."),
        "test_prompts": _integer(200, 1, 10_000, "Prompts of the test split to answer."),
        "new_tokens": _integer(128, 1, 4096, "Maximum tokens per answer."),
        "seed": _SEED,
    },
    JobKind.EVALUATE: {},
}
"""The settings of the jobs below a decoder root."""


def setting_specs(kind: JobKind, root: RootKind = RootKind.ENCODER) -> dict[str, SettingSpec]:
    """The settings of a job of this kind below a root of that kind."""
    return DECODER_SETTING_SPECS.get(kind, {}) if root == RootKind.DECODER else SETTING_SPECS[kind]


def settings_check(
    kind: JobKind, settings: Mapping[str, Any] | None, root: RootKind = RootKind.ENCODER
) -> dict[str, SettingValue]:
    """The settings of a job of this kind, validated. Raises ``invalid_field``."""
    if settings is not None and not isinstance(settings, Mapping):
        raise HmiError(ErrorCode.INVALID_FIELD, "Settings must be an object.", param="settings")
    specs = setting_specs(kind, root)
    checked: dict[str, SettingValue] = {}
    for name, value in (settings or {}).items():
        if name not in specs:
            known = ", ".join(sorted(specs)) or "none"
            raise HmiError(
                ErrorCode.INVALID_FIELD,
                f"Unknown setting {name!r} (known: {known}).",
                param=f"settings.{name}",
            )
        checked[name] = specs[name].validate(value, f"settings.{name}")
    return checked


def pet_check(settings: Mapping[str, Any], root: RootKind) -> None:
    """Raise ``invalid_field`` if training with all these settings would change nothing.

    Below an encoder there is always a head.
    """
    full = settings_with_defaults(JobKind.FINE_TUNE, settings, root)
    if root == RootKind.DECODER and not any(full[name] for name in ("lora", *ADAPTER_SPECS)):
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            "Nothing to train: choose a LoRA rank or an adapter width above 0.",
            param="settings.lora",
        )


def settings_with_defaults(
    kind: JobKind, settings: Mapping[str, Any], root: RootKind = RootKind.ENCODER
) -> dict[str, Any]:
    """The settings of a job of this kind, with defaults for those not set."""
    return {name: settings.get(name, spec.default) for name, spec in setting_specs(kind, root).items()}


def alpha_check(alpha: object) -> float:
    """The coverage in %, 0 to 100. Raises ``invalid_field``."""
    return float(SettingSpec(float, min_value=0, max_value=100).validate(alpha, "alpha"))
