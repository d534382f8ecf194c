"""Where the names of a checkpoint's modules stand in a root: in an upper layer, below the cut, or beyond."""

import re
from dataclasses import dataclass

from inference.hplm.families.registry import FAMILIES
from inference.hplm.root_config import RootConfig


@dataclass(frozen=True, slots=True)
class Place:
    """layer: of the upper layers, from 0; None below the cut. part: our name within the layer ("query",
    "attention_norm"); "" where that is not one we know."""

    layer: int | None
    part: str


def module_of(name: str, config: RootConfig) -> str:
    """The name without what a task model puts before the encoder's."""
    return name.removeprefix(FAMILIES[config.family].prefix)


def place_of(module: str, config: RootConfig) -> Place | None:
    """Where a module of the encoder stands, its name as `module_of` gives it; None for what is no part of the
    encoder (a head). Raises nothing: what is unknown within a layer has no part."""
    family = FAMILIES[config.family]
    if module.startswith(("embeddings.", "embeddings_project")):
        return Place(None, "")
    before, _, after = family.layer.partition("{}")
    match = re.fullmatch(rf"{re.escape(before)}(\d{{1,4}}){re.escape(after)}(.+)", module)
    if match is None:
        return None
    number, theirs = int(match[1]), match[2]
    ours = {their: our for our, their in family.layer_names.items()}.get(theirs, "")
    return Place(number - config.lower if number >= config.lower else None, ours)


def module_name(layer: int, part: str, config: RootConfig) -> str:
    """The name that a checkpoint of the family has for a part of upper layer `layer`, without the prefix."""
    family = FAMILIES[config.family]
    return family.layer.format(layer + config.lower) + family.layer_names[part]
