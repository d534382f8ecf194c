"""Which knobs of a job people may turn, and how far; the rest keep the training code's defaults."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tenants.errors import ErrorCode, HmiError
from versiontree.models.job import JobKind

DEFAULT_ALPHA: Final = 50.0
"""The coverage of a PLOT in %: about 0.4% of the fragments cover half of the occurrences."""


@dataclass(frozen=True, slots=True)
class Knob:
    """A number with its bounds, both allowed."""

    type: type[int] | type[float]
    least: float
    most: float


_SEED = Knob(int, 0, 2**31 - 1)
_LEARNING_RATE = Knob(float, 1e-6, 1.0)

KNOBS: Final[dict[JobKind, dict[str, Knob]]] = {
    JobKind.CONVERT: {
        "seed": _SEED,
        "lower": Knob(int, 1, 64),
        "max_tokens": Knob(int, 8, 4096),
        "ridge_tokens": Knob(int, 1_000, 10**9),
        "distil_tokens": Knob(int, 0, 10**10),
        "learning_rate": _LEARNING_RATE,
    },
    JobKind.FURTHER_PRETRAIN: {
        "seed": _SEED,
        "tokens": Knob(int, 0, 10**10),
        "head_tokens": Knob(int, 0, 10**10),
        "likeness": Knob(float, 0, 1_000),
        "learning_rate": _LEARNING_RATE,
    },
    JobKind.BUILD_PLOT: {},
    JobKind.FINE_TUNE: {
        "seed": _SEED,
        "adapter_size": Knob(int, 1, 1024),
        "learning_rate": _LEARNING_RATE,
        "batch": Knob(int, 1, 512),
        "epochs": Knob(int, 1, 100),
        "minimum_steps": Knob(int, 0, 10**6),
        "most_epochs": Knob(int, 1, 1000),
        "patience": Knob(int, 1, 100),
    },
    JobKind.EVALUATE: {},
    JobKind.COMPACT: {},
    JobKind.GROW: {
        "minimum_count": Knob(int, 1, 10**9),
        "minimum_tenants": Knob(int, 1, 10_000),
        "most": Knob(int, 1, 10**7),
    },
}


def settings_check(kind: JobKind, settings: Mapping[str, Any] | None) -> dict[str, int | float]:
    """The settings of a job of this kind, each a known knob within its bounds; else ``invalid_field``."""
    if settings is not None and not isinstance(settings, Mapping):
        raise HmiError(ErrorCode.INVALID_FIELD, "Settings are an object of numbers.", param="settings")
    knobs = KNOBS[kind]
    checked: dict[str, int | float] = {}
    for name, value in (settings or {}).items():
        if name not in knobs:
            known = ", ".join(sorted(knobs)) or "none"
            raise HmiError(
                ErrorCode.INVALID_FIELD,
                f"Unknown setting {name!r} (known: {known}).",
                param=f"settings.{name}",
            )
        checked[name] = _number(value, knobs[name], f"settings.{name}")
    return checked


def alpha_check(alpha: object) -> float:
    """The coverage in %, 0 to 100; else ``invalid_field``."""
    return float(_number(alpha, Knob(float, 0, 100), "alpha"))


def _number(value: object, knob: Knob, param: str) -> int | float:
    wanted = (int,) if knob.type is int else (int, float)
    # NaN fails the comparison; booleans are integers to Python, not to people.
    if isinstance(value, bool) or not isinstance(value, wanted) or not knob.least <= value <= knob.most:
        kind = "a whole number" if knob.type is int else "a number"
        raise HmiError(
            ErrorCode.INVALID_FIELD, f"This is {kind} from {knob.least:g} to {knob.most:g}.", param=param
        )
    return knob.type(value)
