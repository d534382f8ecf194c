"""Which knobs of a job people may turn, and how far; the rest keep the training code's defaults."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from tenants.base.errors import ErrorCode, HmiError
from versiontree.jobs.models import JobKind

Setting = int | float | bool | str

DEFAULT_ALPHA: Final = 50.0
"""The coverage of a PLOT in %: about 0.4% of the fragments cover half of the occurrences."""

DEFAULT_VECTORS: Final = "float16"
"""How a PLOT stores its vectors."""

USUAL_EPOCHS: Final = 8
"""Epochs of a fine-tuning that sets no number of them, unless `minimum_steps` asks for more."""


@dataclass(frozen=True, slots=True)
class Knob:
    """A number with its bounds, both allowed; or a yes or no; or one of several words. default: what the
    training code does by itself (None: it depends on the checkpoint)."""

    type: type[int] | type[float] | type[bool] | type[str]
    default: int | float | bool | str | None = None
    least: float = 0
    most: float = 1
    choices: tuple[str, ...] = ()
    help: str = ""

    def read(self, value: object, param: str) -> Setting:
        """The value in the knob's own type; else ``invalid_field`` with what it may be."""
        if self.type is bool:
            fits, may_be = isinstance(value, bool), "true or false"
        elif self.type is str:
            fits, may_be = value in self.choices, f"one of {', '.join(self.choices)}"
        else:
            wanted = (int,) if self.type is int else (int, float)
            # NaN fails the comparison; booleans are integers to Python, not to people.
            number = isinstance(value, wanted) and not isinstance(value, bool)
            fits = number and self.least <= cast("float", value) <= self.most
            kind = "a whole number" if self.type is int else "a number"
            may_be = f"{kind} from {self.least:g} to {self.most:g}"
        if not fits:
            raise HmiError(ErrorCode.INVALID_FIELD, f"This is {may_be}.", param=param)
        return self.type(cast("Any", value))


def _whole(default: int | None, least: float, most: float, help_text: str = "") -> Knob:
    return Knob(int, default, least, most, help=help_text)


def _rate(default: float) -> Knob:
    return Knob(float, default, 1e-6, 1.0)


_SEED = _whole(0, 0, 2**31 - 1)

KNOBS: Final[dict[JobKind, dict[str, Knob]]] = {
    JobKind.CONVERT: {
        "lower": _whole(None, 1, 64, "Layers that are looked up; half of them by default."),
        "n": _whole(3, 2, 5, "Tokens of a fragment."),
        "max_tokens": _whole(None, 8, 4096, "The longest text; what the checkpoint allows by default."),
        "ridge_tokens": _whole(60_000, 1_000, 10**9, "Read for the closed form."),
        "distil_tokens": _whole(1_100_000, 0, 10**10, "Read for the distillation."),
        "distil_minutes": Knob(
            float, None, 0.1, 10_000, help="How long the distillation takes, instead of a number of tokens."
        ),
        "learning_rate": _rate(6e-4),
        "seed": _SEED,
    },
    JobKind.FURTHER_PRETRAIN: {
        "tokens": _whole(300_000, 0, 10**10, "Read from the corpus."),
        "minutes": Knob(float, None, 0.1, 10_000, help="How long it learns, instead of a number of tokens."),
        "head_tokens": _whole(150_000, 0, 10**10, "Read to fit a language model head, where there is none."),
        "likeness": Knob(float, 20.0, 0, 1_000, help="How strongly it is held to the original layers."),
        "learning_rate": _rate(3e-4),
        "seed": _SEED,
    },
    JobKind.BUILD_PLOT: {
        "vectors": Knob(str, DEFAULT_VECTORS, choices=("float16", "int8"), help="int8 takes half the space."),
    },
    JobKind.FINE_TUNE: {
        "lora": _whole(48, 0, 256, "Rank of the updates of every linear map; 0 is none."),
        "adapter": _whole(0, 0, 1024, "Width of an adapter behind the attention; 0 is none."),
        "output_adapter": _whole(0, 0, 1024, "Width of an adapter behind the feed-forward; 0 is none."),
        "biases": Knob(bool, True),
        "norms": Knob(bool, True),
        "pooling": Knob(
            str,
            "cls_mean",
            choices=("cls", "cls_mean"),
            help="What the head of a text reads; not for tagging.",
        ),
        "learning_rate": _rate(1e-3),
        "trials": _whole(1, 1, 3, "Learning rates tried: this one, half of it, twice of it."),
        "epochs": _whole(
            None, 1, 100, f"Exactly so many. If empty: {USUAL_EPOCHS}, or more for the steps at least."
        ),
        "batch": _whole(16, 1, 512),
        "patience": _whole(8, 1, 100, "Epochs without gain on dev after which it stops."),
        "minimum_steps": _whole(
            200, 0, 10**6, "Small data is seen again until so many steps are made. Ignored if epochs is set."
        ),
        "most_epochs": _whole(30, 1, 1000, "Ignored if epochs is set."),
        "dropout": Knob(float, 0.1, 0, 0.9),
        "mix": Knob(float, 0.5, 0, 1, help="Share of the texts that are read through the original layers."),
        "balance": Knob(bool, False, help="Rare classes count for more."),
        "seed": _SEED,
    },
    JobKind.EVALUATE: {},
    JobKind.COMPACT: {},
    JobKind.GROW: {
        "minimum_count": _whole(None, 1, 10**9),
        "minimum_tenants": _whole(None, 1, 10_000),
        "most": _whole(None, 1, 10**7),
    },
}


def settings_check(kind: JobKind, settings: Mapping[str, Any] | None) -> dict[str, Setting]:
    """The settings of a job of this kind, each a known knob within its bounds; else ``invalid_field``."""
    if settings is not None and not isinstance(settings, Mapping):
        raise HmiError(ErrorCode.INVALID_FIELD, "Settings are an object.", param="settings")
    knobs = KNOBS[kind]
    checked: dict[str, Setting] = {}
    for name, value in (settings or {}).items():
        if name not in knobs:
            known = ", ".join(sorted(knobs)) or "none"
            raise HmiError(
                ErrorCode.INVALID_FIELD,
                f"Unknown setting {name!r} (known: {known}).",
                param=f"settings.{name}",
            )
        checked[name] = knobs[name].read(value, f"settings.{name}")
    return checked


def settings_in_full(kind: JobKind, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What was chosen for a job of this kind, and the defaults of the rest."""
    return {name: settings.get(name, knob.default) for name, knob in KNOBS[kind].items()}


def alpha_check(alpha: object) -> float:
    """The coverage in %, 0 to 100; else ``invalid_field``."""
    return float(Knob(float, least=0, most=100).read(alpha, "alpha"))
