"""Validation of the settings of jobs that users can set."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, cast

from tenants.base.errors import ErrorCode, HmiError
from versiontree.job_settings import (
    DecoderConversionSettings,
    DecoderTrainingSettings,
    EncoderConversionSettings,
    EncoderTrainingSettings,
    PretrainingSettings,
    SettingSpec,
    TableSettings,
    specs_of,
)
from versiontree.jobs.models import JobKind
from versiontree.tree.root_kind import RootKind

SettingValue = int | float | bool | str

DEFAULT_ALPHA: Final = 50.0
"""The default coverage of a root's PLOT in %. About 0.4% of the fragments cover half of the occurrences."""

DEFAULT_BUDGET_MB: Final = 64.0
"""The default size of a domain's PLOT in MB."""

DEFAULT_VECTORS: Final = TableSettings.vectors
"""The default number format of a PLOT's vectors."""

SETTINGS_CLASSES: Final[dict[tuple[JobKind, RootKind], type[Any]]] = {
    (JobKind.FINE_TUNE, RootKind.ENCODER): EncoderTrainingSettings,
    (JobKind.FINE_TUNE, RootKind.DECODER): DecoderTrainingSettings,
    (JobKind.CONVERT, RootKind.ENCODER): EncoderConversionSettings,
    (JobKind.CONVERT, RootKind.DECODER): DecoderConversionSettings,
    (JobKind.FURTHER_PRETRAIN, RootKind.ENCODER): PretrainingSettings,
    (JobKind.BUILD_PLOT, RootKind.ENCODER): TableSettings,
}
"""The settings of a kind of job below a kind of root. Other jobs have none."""


@cache
def setting_specs(kind: JobKind, root: RootKind = RootKind.ENCODER) -> Mapping[str, SettingSpec]:
    """The settings of a job of this kind below a root of that kind."""
    found = SETTINGS_CLASSES.get((kind, root))
    return specs_of(found) if found else {}


def setting_validate(spec: SettingSpec, value: object, param: str) -> SettingValue:
    """The value, converted to the setting's type. Raises ``invalid_field`` with the valid values."""
    if spec.type is bool:
        is_valid, valid_values = isinstance(value, bool), "true or false"
    elif spec.type is str:
        is_valid, valid_values = value in spec.choices, f"one of {', '.join(spec.choices)}"
    else:
        types = (int,) if spec.type is int else (int, float)
        # NaN fails the comparison. A bool is an int in Python, but not a valid number here.
        is_number = isinstance(value, types) and not isinstance(value, bool)
        is_valid = is_number and spec.min_value <= cast("float", value) <= spec.max_value
        kind = "an integer" if spec.type is int else "a number"
        valid_values = f"{kind} from {spec.min_value:g} to {spec.max_value:g}"
    if not is_valid:
        raise HmiError(ErrorCode.INVALID_FIELD, f"This must be {valid_values}.", param=param)
    return spec.type(cast("Any", value))


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
        checked[name] = setting_validate(specs[name], value, f"settings.{name}")
    return checked


def pet_check(settings: Mapping[str, Any], root: RootKind) -> None:
    """Raise ``invalid_field`` if training with all these settings would change nothing.

    Below an encoder there is always a head.
    """
    full = settings_with_defaults(JobKind.FINE_TUNE, settings, root)
    if root == RootKind.DECODER and not any(full[name] for name in ("lora", "adapter", "output_adapter")):
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


ROW_SETTINGS: Final = ("alpha", "budget_mb")
"""The settings that say which rows a PLOT has. A config and the params of a job have one of them."""


def rows_of(config: Mapping[str, Any]) -> dict[str, float]:
    """The setting of `ROW_SETTINGS` in a config or in the params of a job; empty if it has none."""
    return {name: config[name] for name in ROW_SETTINGS if config.get(name) is not None}


def table_check(
    *, alpha: float | None, budget_mb: float | None, vectors: str, default: Mapping[str, float]
) -> dict[str, SettingValue]:
    """The settings of a PLOT, with one of `ROW_SETTINGS`: the default where neither is set.

    Raises ``invalid_field``.
    """
    chosen = rows_of({"alpha": alpha, "budget_mb": budget_mb})
    if len(chosen) > 1:
        message = "A table has a coverage (alpha) or a size (budget_mb), not both."
        raise HmiError(ErrorCode.INVALID_FIELD, message, param="budget_mb")
    specs = setting_specs(JobKind.BUILD_PLOT)
    rows = {name: setting_validate(specs[name], value, name) for name, value in (chosen or default).items()}
    return rows | settings_check(JobKind.BUILD_PLOT, {"vectors": vectors})
