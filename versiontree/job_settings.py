"""The settings of jobs that users can set: type, default, valid values, label and help, each defined once.

Forms, serializers, validation and the CLI's messages are made from these classes, and the settings of the
training code extend them. So this module needs nothing but the standard library.
"""

from dataclasses import dataclass, field, fields
from typing import Any, Final, cast

DEFAULT_EPOCHS: Final = 8
"""Epochs of a fine-tuning below an encoder without `epochs`, unless `min_steps` needs more."""

MIN_CORPUS_TEXTS: Final = 8
"""The least texts of a corpus that a job trains on or counts."""

LORA_PROJECTIONS: Final[dict[str, tuple[str, ...]]] = {
    "all": ("query", "key", "value", "output", "gate", "up", "down"),
    "attention": ("query", "key", "value", "output"),
    "query_value": ("query", "value"),
}
"""The linear maps of each choice of ``projections``. Those that a decoder does not have are left out."""

CUTS: Final = {"fast": 2, "accurate": 3}
"""The presets of an encoder's cut: tables replace the layers divided by this number, at least one layer."""

MEASURED_LAYERS, MEASURED_HIDDEN = 6, 384
"""The checkpoint whose conversion was measured: layers and hidden size."""


def conversion_cost(layers: int, hidden: int) -> float:
    """The multiplications of so many layers of this hidden size, as a multiple of the measured checkpoint's.
    What a token costs to convert grows with them."""
    return layers * hidden**2 / (MEASURED_LAYERS * MEASURED_HIDDEN**2)


@dataclass(frozen=True, slots=True)
class ConversionTokens:
    """The tokens that a conversion distils, and those that its context mixer learns from."""

    distil: int
    mixer: int


CONVERSION_PRESETS: Final = (
    (4.0, ConversionTokens(distil=700_000, mixer=150_000)),
    (12.0, ConversionTokens(distil=300_000, mixer=100_000)),
    (float("inf"), ConversionTokens(distil=100_000, mixer=60_000)),
)
"""The default tokens of checkpoints up to each ``conversion_cost``. Larger ones get fewer, so that 12 layers
of 768 take about an hour on two cores."""

_DISTIL_SHARE, _MIXER_SHARE = 0.6, 0.3
"""Of the time of the measured conversion. The rest does not depend on these tokens."""


def conversion_work(layers: int, hidden: int, tokens: ConversionTokens) -> float:
    """The work of a conversion with these tokens, as a multiple of the measured checkpoint's by default."""
    _, measured = CONVERSION_PRESETS[0]
    distil = _DISTIL_SHARE * tokens.distil / measured.distil
    mixer = _MIXER_SHARE * tokens.mixer / measured.mixer
    rest = 1 - _DISTIL_SHARE - _MIXER_SHARE
    return conversion_cost(layers, hidden) * (distil + mixer + rest)


_TYPES: Final[dict[Any, type[int] | type[float] | type[bool] | type[str]]] = {
    int: int,
    int | None: int,
    float: float,
    float | None: float,
    bool: bool,
    str: str,
}


@dataclass(frozen=True, slots=True)
class SettingSpec:
    """The type, default and valid values of a setting: a number with inclusive bounds, a bool, or a choice.

    ``default`` is None if it depends on the checkpoint or on other settings.
    """

    type: type[int] | type[float] | type[bool] | type[str]
    default: int | float | bool | str | None = None
    min_value: float = 0
    max_value: float = 1
    choices: tuple[str, ...] = ()
    label: str = ""
    help: str = ""


def specs_of(settings: type[Any]) -> dict[str, SettingSpec]:
    """Name -> spec of each setting of a class of this module, in the order of its fields."""
    return {
        one.name: SettingSpec(
            _TYPES[one.type],
            cast("Any", one.default),
            label=one.metadata["label"] or one.name.replace("_", " ").capitalize(),
            **{key: value for key, value in one.metadata.items() if key != "label"},
        )
        for one in fields(settings)
    }


def _setting(default: Any, help_text: str, *, label: str = "", **values: Any) -> Any:
    return field(default=default, metadata={"help": help_text, "label": label, **values})


def _number(default: float | None, minimum: float, maximum: float, help_text: str, label: str = "") -> Any:
    return _setting(default, help_text, label=label, min_value=minimum, max_value=maximum)


def _learning_rate(default: float) -> Any:
    return _number(default, 1e-6, 1.0, "The highest learning rate.")


def _minutes(of: str, label: str) -> Any:
    return _number(None, 0.1, 10_000, f"Duration of the {of}, instead of a number of tokens.", label)


def _seed() -> Any:
    return _number(0, 0, 2**31 - 1, "Seed of the random numbers.")


def _adapter(where: str, label: str) -> Any:
    return _number(0, 0, 1024, f"Width of an adapter after the {where}. 0: none.", label)


@dataclass(frozen=True, kw_only=True)
class EncoderConversionSettings:
    """Settings of the conversion of an encoder. Budgets are in tokens, so that a seed gives the same root
    whatever the machine's load; with ``distil_minutes`` distillation repeats its tokens for that long."""

    cut: str = _setting(
        "fast",
        "Layers that the table replaces: half of them (fast) or a third (accurate).",
        choices=tuple(CUTS),
    )
    lower_layers: int | None = _number(
        None, 1, 64, "Layers that the table replaces, instead of a preset.", "Layers below the cut"
    )
    n: int = _number(3, 2, 5, "Tokens in a fragment.", "Fragment length")
    max_tokens: int | None = _number(
        None,
        8,
        4096,
        "Maximum tokens per text. Default: the limit of the checkpoint.",
        "Maximum tokens of a text",
    )
    ridge_tokens: int = _number(
        60_000, 1_000, 10**9, "Tokens for the closed form.", "Tokens for the closed form"
    )
    mixer_tokens: int | None = _number(
        None,
        0,
        10**9,
        "Tokens for the context mixer, whose states are kept in memory. 0: none. Default: by the size of the "
        "checkpoint.",
        "Tokens for the context mixer",
    )
    distil_tokens: int | None = _number(
        None,
        0,
        10**10,
        "Tokens for the distillation. Default: by the size of the checkpoint.",
        "Distillation tokens",
    )
    distil_minutes: float | None = _minutes("distillation", "Distillation minutes")
    learning_rate: float = _learning_rate(6e-4)
    seed: int = _seed()

    def layers_below_cut(self, layers: int) -> int:
        """``lower_layers``, or of so many layers those that the preset puts below the cut."""
        return max(1, layers // CUTS[self.cut]) if self.lower_layers is None else self.lower_layers

    def tokens_for(self, layers: int, hidden: int) -> ConversionTokens:
        """``distil_tokens`` and ``mixer_tokens``, or where they are not set those of the preset by size."""
        cost = conversion_cost(layers, hidden)
        preset = next(tokens for limit, tokens in CONVERSION_PRESETS if cost <= limit)
        return ConversionTokens(
            distil=preset.distil if self.distil_tokens is None else self.distil_tokens,
            mixer=preset.mixer if self.mixer_tokens is None else self.mixer_tokens,
        )


@dataclass(frozen=True, kw_only=True)
class DecoderConversionSettings:
    """Settings of the conversion of a decoder."""

    lower_layers: int | None = _number(
        None,
        0,
        255,
        "Layers below the cut, which are not trained. Default: a third of them.",
        "Layers below the cut",
    )


@dataclass(frozen=True, kw_only=True)
class PretrainingSettings:
    """Settings of further pretraining. The local lower layers and those with full context each train on all
    tokens, and share the minutes."""

    tokens: int = _number(300_000, 0, 10**10, "Tokens of the corpus to train on.")
    minutes: float | None = _minutes("training", "Minutes")
    head_tokens: int = _number(
        150_000,
        0,
        10**10,
        "Tokens to train a language model head, if the root has none.",
        "Tokens for the language-model head",
    )
    distillation_weight: float = _number(
        20.0,
        0,
        1_000,
        "Weight of the error against the original layers in the loss.",
        "How close to stay to the base model",
    )
    learning_rate: float = _learning_rate(3e-4)
    seed: int = _seed()


@dataclass(frozen=True, kw_only=True)
class TableSettings:
    """Settings of a lookup table. Its rows are chosen by `alpha` or by `budget_mb`, never by both."""

    alpha: float | None = _number(
        None,
        0,
        100,
        "Share of the phrases in the corpus that the table holds. Higher is faster to answer and takes more "
        "storage. Default for a root: 50. Not with a size in MB.",
        "Table size (%)",
    )
    budget_mb: float | None = _number(
        None,
        1,
        16_384,
        "Size that is filled with the phrases worth most. Default for a domain: 64. Not with a size in %.",
        "Table size (MB)",
    )
    vectors: str = _setting(
        "float16",
        "int8 takes half the space.",
        label="Number format of the table",
        choices=("float16", "int8"),
    )


@dataclass(frozen=True, kw_only=True)
class EncoderTrainingSettings:
    """Settings of fine-tuning below an encoder: the parts of the PET first."""

    lora: int = _number(16, 0, 256, "Rank of LoRA in every linear layer. 0: none.", "LoRA rank")
    adapter: int = _adapter("attention", "Adapter width after attention")
    output_adapter: int = _adapter("feed-forward block", "Adapter width after feed-forward")
    biases: bool = _setting(True, "Train the biases of the upper layers.", label="Train biases")
    norms: bool = _setting(True, "Train the layer norms of the upper layers.", label="Train layer norms")
    mask: float = _number(
        0,
        0,
        50,
        "Share of the weights that the model hides (MaskBert), such as 5. Training takes a third "
        "longer. Use it without LoRA, where a model should only select from what the base model knows.",
        "Hidden weights (%)",
    )
    diff: float = _number(
        0,
        0,
        50,
        "Share of the weights that the model changes (Diff-pruning), such as 0.5. Training takes a third "
        "longer. Use it without LoRA, for models that are small on disk.",
        "Changed weights (%)",
    )
    pooling: str = _setting(
        "cls_mean",
        "What the classifier sees: the first token, or the first token and the average of all. "
        "Not for tagging.",
        choices=("cls", "cls_mean"),
    )
    learning_rate: float = _learning_rate(2e-3)
    trials: int = _number(1, 1, 3, "2 or 3: also tries half and double this learning rate.")
    epochs: int | None = _number(
        None, 1, 100, f"Exact number. Default: {DEFAULT_EPOCHS}, or more to reach the minimum steps."
    )
    batch_size: int = _number(16, 1, 512, "Rows in a batch.")
    patience: int = _number(8, 1, 100, "Stop after this many epochs without a better dev metric.")
    min_steps: int = _number(
        200,
        0,
        10**6,
        "Small datasets are repeated until this many steps. Ignored if epochs is set.",
        "Minimum steps",
    )
    max_epochs: int = _number(
        30, 1, 1000, "Maximum number of epochs. Ignored if epochs is set.", "Maximum epochs"
    )
    dropout: float = _number(0.1, 0, 0.9, "Dropout of the states at the cut and of the head's input.")
    full_context_share: float = _number(
        0.5,
        0,
        1,
        "Share of the texts that are read with full context, not through the table.",
        "Share with full context",
    )
    balance_classes: bool = _setting(
        False, "Weight rare classes more in the loss.", label="Balance the classes"
    )
    seed: int = _seed()


@dataclass(frozen=True, kw_only=True)
class DecoderTrainingSettings:
    """Settings of fine-tuning below a decoder: the parts of the PET first."""

    lora: int = _number(16, 0, 256, "Rank of LoRA. 0: none.", "LoRA rank")
    alpha: float | None = _number(
        None, 0, 4096, "Updates are scaled by alpha / rank. Default: twice the rank.", "LoRA alpha"
    )
    projections: str = _setting("all", "The linear maps that get LoRA.", choices=tuple(LORA_PROJECTIONS))
    adapter: int = _adapter("attention", "Adapter width after attention")
    output_adapter: int = _adapter("feed-forward block", "Adapter width after feed-forward")
    learning_rate: float = _learning_rate(1e-3)
    epochs: int = _number(5, 1, 100, "Maximum number of epochs.")
    patience: int = _number(2, 1, 100, "Stop after this many epochs without a lower dev loss.")
    batch_tokens: int = _number(1024, 16, 2**17, "Maximum tokens per batch.", "Tokens in a batch")
    batch_size: int | None = _number(None, 1, 512, "Maximum rows per batch. Default: no limit.")
    max_tokens: int = _number(
        1024,
        16,
        2**17,
        "Maximum tokens per row. Longer rows are truncated.",
        "Maximum tokens of a text",
    )
    dropout: float = _number(0.0, 0, 0.9, "Dropout of the inputs of LoRA.")
    test_prompts: int = _number(200, 1, 10_000, "Prompts of the test split to answer.", "Prompts to answer")
    new_tokens: int = _number(128, 1, 4096, "Maximum tokens per answer.", "Tokens of an answer")
    seed: int = _seed()
