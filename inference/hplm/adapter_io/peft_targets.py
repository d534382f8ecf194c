"""Tells whether PEFT gives a module LoRA, by the fields of an adapter's configuration that choose modules."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from inference.hplm.adapter_io.name_patterns import NamePattern, name_pattern

ALL_LINEAR: Final = "all-linear"
Names = str | frozenset[str]
"""A regular expression of whole names, or the names or their ends after a dot."""
_FIRST_INDEX: Final = re.compile(r".*?\.[^.]*\.(\d+)\.")


@dataclass(frozen=True, slots=True)
class TargetRule:
    """The values of `target_modules`, `exclude_modules`, `layers_to_transform` and `layers_pattern`."""

    targets: Names | None
    excluded: Names | None
    layers: Sequence[int]
    layers_pattern: Sequence[str]

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "TargetRule":
        """The rule of a configuration whose fields have the right types."""
        layers, pattern = fields.get("layers_to_transform"), fields.get("layers_pattern")
        return cls(
            targets=_names(fields.get("target_modules")),
            excluded=_names(fields.get("exclude_modules") or None),
            layers=[layers] if isinstance(layers, int) else layers or (),
            layers_pattern=[pattern] if isinstance(pattern, str) and pattern else pattern or (),
        )

    def omitted_by(self, module: str) -> str:
        """The field by which PEFT gives a module no LoRA, or "" if the module gets LoRA.

        `module`: its full name in the task model. A regular expression that is not supported counts as a
        match, since the tensors of an adapter show its modules as well.
        """
        if self.excluded is not None and _is_named(module, self.excluded, unsupported=False):
            return "exclude_modules"
        if self.targets is None or (isinstance(self.targets, str) and self.targets.lower() == ALL_LINEAR):
            return ""
        if not _is_named(module, self.targets, unsupported=True):
            return "target_modules"
        if isinstance(self.targets, str) or module in self.targets or not self.layers:
            return ""
        return "" if self._is_layer(module) else "layers_to_transform"

    def _is_layer(self, module: str) -> bool:
        if not self.layers_pattern:
            match = _FIRST_INDEX.match(module)
            return match is not None and int(match[1]) in self.layers
        patterns = [_parsed(pattern) for pattern in self.layers_pattern]
        if None in patterns:
            return True
        parts = module.split(".")
        for pattern in patterns:
            for at, part in enumerate(parts[:-1]):
                if part.isdecimal() and pattern is not None and pattern.matches(".".join(parts[:at])):
                    return int(part) in self.layers
        return False


def _names(value: str | Sequence[str] | None) -> Names | None:
    return value if value is None or isinstance(value, str) else frozenset(value)


def _is_named(module: str, names: Names, *, unsupported: bool) -> bool:
    """Whether the module has one of the names. `unsupported`: the answer for an unsupported expression."""
    if isinstance(names, str):
        pattern = _parsed(names)
        return unsupported if pattern is None else pattern.matches_whole(module)
    parts = module.split(".")
    return any(".".join(parts[at:]) in names for at in range(len(parts)))


def _parsed(pattern: str) -> NamePattern | None:
    try:
        return name_pattern(pattern)
    except ValueError:
        return None
