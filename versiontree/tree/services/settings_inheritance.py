"""What a version inherits from the config of the version before it."""

from collections.abc import Mapping
from typing import Any, Final

from tenants.base.errors import HmiError
from tenants.datasets.models import GENERATIVE_TASKS, Task
from versiontree.jobs.models import JobKind
from versiontree.tree.models import RootKind, Version
from versiontree.tree.selectors.lineage import COMPACTS, FIRST_MODEL, REBASE
from versiontree.tree.training_settings import SettingValue, settings_check, settings_with_defaults

_VERSION_ONLY_KEYS: Final = frozenset({COMPACTS, FIRST_MODEL, REBASE, "imported", "warnings", "grown"})
"""Config keys that are not inherited."""


def config_inherited(above: Version) -> dict[str, Any]:
    """The config of a version without the keys that only concern that version."""
    return {name: value for name, value in above.config.items() if name not in _VERSION_ONLY_KEYS}


PET_SHAPE_SETTINGS: Final = {
    RootKind.ENCODER: ("lora", "adapter", "output_adapter", "biases", "norms"),
    RootKind.DECODER: ("lora", "projections", "adapter", "output_adapter"),
}
"""The settings that define the shape of a PET, by the kind of its root. Training continues from a PET only if
they are the same."""
POOLING: Final = "pooling"
TASKS_WITHOUT_POOLING: Final = frozenset({Task.TAGGING, Task.QUESTION_ANSWERING}) | GENERATIVE_TASKS
"""Tasks whose heads read every token, or that have no head."""


def settings_inherited(before: Version, chosen: Mapping[str, Any] | None) -> dict[str, SettingValue]:
    """The settings of the version before, updated with the chosen ones. Raises ``invalid_field``."""
    return settings_of(before) | settings_check(JobKind.FINE_TUNE, chosen, RootKind(before.root.kind))


def start_warnings(before: Version, settings: Mapping[str, SettingValue], task: str) -> list[str]:
    """Warnings about what training with these settings cannot continue from the version before."""
    root, number = RootKind(before.root.kind), before.number
    earlier = settings_with_defaults(JobKind.FINE_TUNE, settings_of(before), root)
    now = settings_with_defaults(JobKind.FINE_TUNE, settings, root)
    differences = (_difference(name, earlier, now) for name in PET_SHAPE_SETTINGS[root])
    if parts := [text for text in differences if text]:
        shape = f"its PET has another shape ({', '.join(parts)})"
        return [f"Training starts from the root's own layers, not from version {number}: {shape}."]
    if task in TASKS_WITHOUT_POOLING:
        return []
    if pooling := _difference(POOLING, earlier, now):
        differs = f"its input differs ({pooling})"
        return [f"The head is trained from scratch, not from that of version {number}: {differs}."]
    return []


def settings_of(version: Version) -> dict[str, SettingValue]:
    """The settings of a version, without those that this release does not know: it may be imported."""
    known: dict[str, SettingValue] = {}
    for name, value in version.config.get("settings", {}).items():
        try:
            known |= settings_check(JobKind.FINE_TUNE, {name: value}, RootKind(version.root.kind))
        except HmiError:
            continue
    return known


def _difference(name: str, earlier: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    before, after = earlier[name], now[name]
    return "" if before == after else f"{name} {after} instead of {before}".lower()
