"""Reads the files of an imported adapter, and locates the modules that it names."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from inference.errors import HplmError
from inference.hplm.artifact_files import read_json, read_weights, to_float32
from inference.hplm.families import FAMILIES
from inference.hplm.hplm import Hplm
from inference.hplm.root_config import RootConfig

MAX_LISTED_NAMES = 8
UNSUPPORTED = "invalid_archive"
MAX_NAME_LENGTH = 300
MAX_TENSORS = 20_000
"""Limits of the input of regular expressions. No real adapter has longer names or more tensors."""


@dataclass(frozen=True, slots=True)
class AdapterRequest:
    """An adapter's folder, its root's folder, and options of the import.

    labels: names of the outputs, if the folder has none. task: the task, if the folder does not define it,
    or "". pairs: inputs have two texts. drop_lower: discard changes below the cut instead of raising
    LowerLayersChangedError.
    """

    folder: Path
    root: Path
    labels: tuple[str, ...] = ()
    task: str = ""
    pairs: bool = False
    drop_lower: bool = False


@dataclass(frozen=True, slots=True)
class ImportedAdapter:
    """The hPLM of an adapter, the names of its dropped changes below the cut, and metadata of its folder."""

    hplm: Hplm
    dropped: tuple[str, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)


class LowerLayersChangedError(HplmError):
    """An adapter changes layers below the cut, which lookup tables replace."""

    def __init__(self, names: tuple[str, ...]) -> None:
        more = f" and {len(names) - MAX_LISTED_NAMES} more" if len(names) > MAX_LISTED_NAMES else ""
        super().__init__(
            UNSUPPORTED,
            "it changes lower layers, which the lookup table replaces: "
            f"{', '.join(names[:MAX_LISTED_NAMES])}{more}. Train only the upper layers, or set drop_lower to "
            "discard these changes",
        )
        self.names = names


def read_adapter_json(path: Path) -> dict[str, Any]:
    """A JSON object of an adapter's folder."""
    return read_json(path, missing=UNSUPPORTED, damaged=UNSUPPORTED)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file of an adapter's folder, finite and float32."""
    weights = read_weights(path, missing=UNSUPPORTED, damaged=UNSUPPORTED)
    if len(weights) > MAX_TENSORS:
        raise unsupported_adapter(f"{path.name} has {len(weights):,} tensors; the maximum is {MAX_TENSORS:,}")
    for name in weights:
        if len(name) > MAX_NAME_LENGTH or not name.isprintable():
            raise unsupported_adapter(
                f"{path.name}: {name[:60]!r} is not a valid tensor name. Names must be printable and have at "
                f"most {MAX_NAME_LENGTH} characters"
            )
    return to_float32(weights)


def unsupported_adapter(message: str) -> HplmError:
    """The error for an adapter that cannot be imported, or for a model that a format does not support.

    The message follows "The adapter cannot be imported: " or "This version cannot be exported as ...: ", and
    a full stop is added.
    """
    return HplmError(UNSUPPORTED, message)


@dataclass(frozen=True, slots=True)
class ModuleLocation:
    """Where a module is: the upper layer, from 0 (None below the cut), and our name of the part ("query",
    "attention_norm"; "" if it is unknown)."""

    layer: int | None
    part: str


def strip_prefix(name: str, config: RootConfig) -> str:
    """The name without the prefix of the encoder in task models."""
    return name.removeprefix(FAMILIES[config.family].prefix)


def locate_module(module: str, config: RootConfig) -> ModuleLocation | None:
    """The location of a module, named as by `strip_prefix`; None if it is not in the encoder."""
    family = FAMILIES[config.family]
    if module.startswith(("embeddings.", "embeddings_project")):
        return ModuleLocation(None, "")
    before, _, after = family.layer.partition("{}")
    match = re.fullmatch(rf"{re.escape(before)}(\d{{1,4}}){re.escape(after)}(.+)", module)
    if match is None:
        return None
    number, theirs = int(match[1]), match[2]
    ours = {their: our for our, their in family.layer_names.items()}.get(theirs, "")
    return ModuleLocation(number - config.lower if number >= config.lower else None, ours)


def module_name(layer: int, part: str, config: RootConfig) -> str:
    """The checkpoint's name for a part of upper layer `layer`, without the encoder's prefix."""
    family = FAMILIES[config.family]
    return family.layer.format(layer + config.lower) + family.layer_names[part]
