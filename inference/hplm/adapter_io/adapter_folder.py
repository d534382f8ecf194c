"""The folder of an adapter that was trained elsewhere: reading its files, and where the modules it names
stand."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from inference.hplm.artifact_files import read_json, read_weights, to_float32
from inference.hplm.errors import HplmError
from inference.hplm.families import FAMILIES
from inference.hplm.hplm import Hplm
from inference.hplm.root_config import RootConfig

MAX_LISTED_NAMES = 8


UNSUPPORTED = "invalid_archive"


MAX_NAME_LENGTH = 300


MAX_TENSORS = 20_000
"""No module of a checkpoint has a longer name, and no adapter more tensors: expressions read each name."""


@dataclass(frozen=True, slots=True)
class AdapterRequest:
    """The folder of an adapter and that of the root it shall work on.

    labels: names of the outputs, where the folder does not say them. task: which one of a text's tasks it is,
    where the folder leaves that open ("" otherwise). pairs: inputs have two texts. drop_lower: what it
    changes below the cut may be left behind.
    """

    folder: Path
    root: Path
    labels: tuple[str, ...] = ()
    task: str = ""
    pairs: bool = False
    drop_lower: bool = False


@dataclass(frozen=True, slots=True)
class ImportedAdapter:
    """The hPLM that an adapter becomes; `dropped` names what it changed below the cut, which is left behind;
    `about` is what its folder says of itself."""

    hplm: Hplm
    dropped: tuple[str, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)


class LowerLayersChangedError(HplmError):
    """An adapter changes what stands below the cut, where no hPLM can."""

    def __init__(self, names: tuple[str, ...]) -> None:
        more = f" and {len(names) - MAX_LISTED_NAMES} more" if len(names) > MAX_LISTED_NAMES else ""
        super().__init__(
            UNSUPPORTED,
            "it changes what the domain's table replaces, which cannot be carried over: "
            f"{', '.join(names[:MAX_LISTED_NAMES])}{more}. Train it with the upper layers alone, or leave "
            "this out with drop_lower",
        )
        self.names = names


def read_adapter_json(path: Path) -> dict[str, Any]:
    """A JSON object of an adapter's folder."""
    return read_json(path, missing=UNSUPPORTED, damaged=UNSUPPORTED)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file of an adapter's folder, all finite, in fp32."""
    weights = read_weights(path, missing=UNSUPPORTED, damaged=UNSUPPORTED)
    if len(weights) > MAX_TENSORS:
        raise unsupported_adapter(
            f"{path.name} has {len(weights):,} tensors; at most {MAX_TENSORS:,} are read"
        )
    for name in weights:
        if len(name) > MAX_NAME_LENGTH or not name.isprintable():
            raise unsupported_adapter(f"{name[:60]!r} is not a name of a tensor")
    return to_float32(weights)


def unsupported_adapter(message: str) -> HplmError:
    """An adapter that cannot become an hPLM."""
    return HplmError(UNSUPPORTED, message)


@dataclass(frozen=True, slots=True)
class ModuleLocation:
    """layer: of the upper layers, from 0; None below the cut. part: our name within the layer ("query",
    "attention_norm"); "" where that is not one we know."""

    layer: int | None
    part: str


def strip_prefix(name: str, config: RootConfig) -> str:
    """The name without what a task model puts before the encoder's."""
    return name.removeprefix(FAMILIES[config.family].prefix)


def locate_module(module: str, config: RootConfig) -> ModuleLocation | None:
    """The place of a module in the encoder, its name as `strip_prefix` gives it; None for what is no part of
    it (a head). Raises nothing: what is unknown within a layer has no part."""
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
    """The name that a checkpoint of the family has for a part of upper layer `layer`, without the prefix."""
    family = FAMILIES[config.family]
    return family.layer.format(layer + config.lower) + family.layer_names[part]
