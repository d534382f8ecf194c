"""Which specs of a job people may turn, and how far; the rest keep the training code's defaults."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from tenants.base.errors import ErrorCode, HmiError
from versiontree.jobs.models import JobKind

SettingValue = int | float | bool | str

DEFAULT_ALPHA: Final = 50.0
"""The coverage of a PLOT in %: about 0.4% of the fragments cover half of the occurrences."""

DEFAULT_VECTORS: Final = "float16"
"""How a PLOT stores its vectors."""

DEFAULT_EPOCHS: Final = 8
"""Epochs of a fine-tuning that sets no number of them, unless `min_steps` asks for more."""


@dataclass(frozen=True, slots=True)
class SettingSpec:
    """A number with its bounds, both allowed; or a yes or no; or one of several words. default: what the
    training code does by itself (None: it depends on the checkpoint)."""

    type: type[int] | type[float] | type[bool] | type[str]
    default: int | float | bool | str | None = None
    min_value: float = 0
    max_value: float = 1
    choices: tuple[str, ...] = ()
    help: str = ""

    def validate(self, value: object, param: str) -> SettingValue:
        """The value in the spec's own type; else ``invalid_field`` with what it may be."""
        if self.type is bool:
            fits, may_be = isinstance(value, bool), "true or false"
        elif self.type is str:
            fits, may_be = value in self.choices, f"one of {', '.join(self.choices)}"
        else:
            wanted = (int,) if self.type is int else (int, float)
            # NaN fails the comparison; booleans are integers to Python, not to people.
            number = isinstance(value, wanted) and not isinstance(value, bool)
            fits = number and self.min_value <= cast("float", value) <= self.max_value
            kind = "a whole number" if self.type is int else "a number"
            may_be = f"{kind} from {self.min_value:g} to {self.max_value:g}"
        if not fits:
            raise HmiError(ErrorCode.INVALID_FIELD, f"This is {may_be}.", param=param)
        return self.type(cast("Any", value))


def _integer(default: int | None, min_value: float, max_value: float, help_text: str = "") -> SettingSpec:
    return SettingSpec(int, default, min_value, max_value, help=help_text)


def _rate(default: float) -> SettingSpec:
    return SettingSpec(float, default, 1e-6, 1.0)


_SEED = _integer(0, 0, 2**31 - 1)

SETTING_SPECS: Final[dict[JobKind, dict[str, SettingSpec]]] = {
    JobKind.CONVERT: {
        "lower": _integer(None, 1, 64, "Layers that are looked up; half of them by default."),
        "n": _integer(3, 2, 5, "Tokens of a fragment."),
        "max_tokens": _integer(None, 8, 4096, "The longest text; what the checkpoint allows by default."),
        "ridge_tokens": _integer(60_000, 1_000, 10**9, "Read for the closed form."),
        "distil_tokens": _integer(1_100_000, 0, 10**10, "Read for the distillation."),
        "distil_minutes": SettingSpec(
            float, None, 0.1, 10_000, help="How long the distillation takes, instead of a number of tokens."
        ),
        "learning_rate": _rate(6e-4),
        "seed": _SEED,
    },
    JobKind.FURTHER_PRETRAIN: {
        "tokens": _integer(300_000, 0, 10**10, "Read from the corpus."),
        "minutes": SettingSpec(
            float, None, 0.1, 10_000, help="How long it learns, instead of a number of tokens."
        ),
        "head_tokens": _integer(
            150_000, 0, 10**10, "Read to fit a language model head, where there is none."
        ),
        "distillation_weight": SettingSpec(
            float, 20.0, 0, 1_000, help="How strongly it is held to the original layers."
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
        "lora": _integer(48, 0, 256, "Rank of the updates of every linear map; 0 is none."),
        "adapter": _integer(0, 0, 1024, "Width of an adapter behind the attention; 0 is none."),
        "output_adapter": _integer(0, 0, 1024, "Width of an adapter behind the feed-forward; 0 is none."),
        "biases": SettingSpec(bool, True),
        "norms": SettingSpec(bool, True),
        "pooling": SettingSpec(
            str,
            "cls_mean",
            choices=("cls", "cls_mean"),
            help="What the head of a text reads; not for tagging.",
        ),
        "learning_rate": _rate(1e-3),
        "trials": _integer(1, 1, 3, "Learning rates tried: this one, half of it, twice of it."),
        "epochs": _integer(
            None, 1, 100, f"Exactly so many. If empty: {DEFAULT_EPOCHS}, or more for the steps at least."
        ),
        "batch_size": _integer(16, 1, 512),
        "patience": _integer(8, 1, 100, "Epochs without gain on dev after which it stops."),
        "min_steps": _integer(
            200, 0, 10**6, "Small data is seen again until so many steps are made. Ignored if epochs is set."
        ),
        "max_epochs": _integer(30, 1, 1000, "Ignored if epochs is set."),
        "dropout": SettingSpec(float, 0.1, 0, 0.9),
        "full_context_share": SettingSpec(
            float, 0.5, 0, 1, help="Share of the texts that are read through the original layers."
        ),
        "balance_classes": SettingSpec(bool, False, help="Rare classes count for more."),
        "seed": _SEED,
    },
    JobKind.EVALUATE: {},
    JobKind.COMPACT: {},
    JobKind.GROW: {
        "min_count": _integer(None, 1, 10**9),
        "min_tenants": _integer(None, 1, 10_000),
        "max_fragments": _integer(None, 1, 10**7),
    },
}


def settings_check(kind: JobKind, settings: Mapping[str, Any] | None) -> dict[str, SettingValue]:
    """The settings of a job of this kind, each a known spec within its bounds; else ``invalid_field``."""
    if settings is not None and not isinstance(settings, Mapping):
        raise HmiError(ErrorCode.INVALID_FIELD, "Settings are an object.", param="settings")
    specs = SETTING_SPECS[kind]
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


def settings_with_defaults(kind: JobKind, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What was chosen for a job of this kind, and the defaults of the rest."""
    return {name: settings.get(name, spec.default) for name, spec in SETTING_SPECS[kind].items()}


def alpha_check(alpha: object) -> float:
    """The coverage in %, 0 to 100; else ``invalid_field``."""
    return float(SettingSpec(float, min_value=0, max_value=100).validate(alpha, "alpha"))
