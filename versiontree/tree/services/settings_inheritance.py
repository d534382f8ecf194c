"""What a version that the platform makes of the one above it takes over from its config."""

from collections.abc import Mapping
from typing import Any, Final

from tenants.base.errors import HmiError
from tenants.datasets.models import Task
from versiontree.jobs.models import JobKind
from versiontree.tree.models import Version
from versiontree.tree.selectors.lineage import COMPACTS
from versiontree.tree.training_settings import SETTING_SPECS, SettingValue, settings_check

_VERSION_ONLY_KEYS: Final = frozenset({COMPACTS, "imported", "warnings", "grown"})
"""What is said of one version alone: which tables its own holds, where it comes from, what was amiss with the
text it learned from, how it grew."""


def config_inherited(above: Version) -> dict[str, Any]:
    """The config of a version without what is true of that version alone."""
    return {name: value for name, value in above.config.items() if name not in _VERSION_ONLY_KEYS}


PET_SHAPE_SETTINGS: Final = ("lora", "adapter", "output_adapter", "biases", "norms")
"""The parts of a PET: only one of the same parts can be trained on."""


POOLING: Final = "pooling"


TOKEN_TASKS: Final = (Task.TAGGING, Task.QUESTION_ANSWERING)
"""Their heads read every token; there is nothing to pool."""


def settings_inherited(before: Version, chosen: Mapping[str, Any] | None) -> dict[str, SettingValue]:
    """The settings of the version before, but for those that are chosen; else ``invalid_field``."""
    return _settings_of(before) | settings_check(JobKind.FINE_TUNE, chosen)


def start_warnings(before: Version, settings: Mapping[str, SettingValue], task: str) -> list[str]:
    """What training with these settings cannot take over from the version before, in sentences."""
    earlier = _settings_of(before)
    number = before.number
    if parts := [told for name in PET_SHAPE_SETTINGS if (told := _difference(name, earlier, settings))]:
        shape = f"its PET has another shape ({', '.join(parts)})"
        return [f"Training starts from the root's own layers, not from version {number}: {shape}."]
    pooling = _difference(POOLING, earlier, settings)
    if pooling and task not in TOKEN_TASKS:
        return [f"The head starts anew, not from that of version {number}: it reads otherwise ({pooling})."]
    return []


def _settings_of(version: Version) -> dict[str, SettingValue]:
    """What it was trained with, as far as this release knows such settings: a version may be imported."""
    kept: dict[str, SettingValue] = {}
    for name, value in version.config.get("settings", {}).items():
        try:
            kept |= settings_check(JobKind.FINE_TUNE, {name: value})
        except HmiError:
            continue
    return kept


def _difference(name: str, earlier: Mapping[str, SettingValue], now: Mapping[str, SettingValue]) -> str:
    default = SETTING_SPECS[JobKind.FINE_TUNE][name].default
    before, after = earlier.get(name, default), now.get(name, default)
    return "" if before == after else f"{name} {format_(after)} instead of {format_(before)}"


def format_(value: SettingValue | None) -> str:
    return str(value).lower()
