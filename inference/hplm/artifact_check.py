"""Validates imported artifacts of encoder roots, domains and models by loading them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from inference.cascade.profile import CASCADE_FILE, CascadeProfile
from inference.errors import HplmError
from inference.hplm.architecture import Architecture
from inference.hplm.artifact_files import read_artifact_json, read_weights
from inference.hplm.encoder import FullLower
from inference.hplm.fragments import pack
from inference.hplm.hplm import Hplm, check_sizes
from inference.hplm.local_lower import JSON_FILE as LOWER_JSON
from inference.hplm.local_lower import LocalLower
from inference.hplm.pets.spec import UpperShape
from inference.hplm.plot import PlotTable
from inference.hplm.root import FULL_LOWER_FILE, GENERAL_TEXT_FILE, LM_HEAD_FILE, LmHead, Root
from inference.hplm.root_config import RootConfig
from inference.text.tasks import OUTPUT_KINDS
from inference.text.tokenization import ROOT_FILE

CHECK_BATCH = 65_536


def check_artifacts(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Load all artifacts, and return the task and pairs of the hPLM. Raises HplmError if one is invalid.

    `root`, `lowers`, `plots` (nearest first), `hplm` and `cascade` (or None) are folders. `root_is_new`:
    whether more than the root's config is read. `ends`: the last table is the root's own.
    """
    config = RootConfig.from_json(read_artifact_json(Path(payload["root"]) / ROOT_FILE))
    if payload["root_is_new"]:
        root = Root.load(Path(payload["root"]))
        root.checkpoint_lower()
        root.lm_head()
        root.pooler()
        root.tokenizer.encode("a text")
        check_general_text(Path(payload["root"]), config)
    for folder in payload["lowers"]:
        check_lower(Path(folder), config)
    for number, folder in enumerate(payload["plots"], start=1):
        check_plot(Path(folder), config, ends=payload["ends"] and number == len(payload["plots"]))
    if not payload["hplm"]:
        return {}
    cascade = payload["cascade"]
    return check_hplm(Path(payload["hplm"]), config, Path(cascade) if cascade else None)


def check_general_text(folder: Path, config: RootConfig) -> None:
    """Validate the held-out text of a root, if it has one."""
    if not (folder / GENERAL_TEXT_FILE).is_file():
        return
    parts = read_weights(folder / GENERAL_TEXT_FILE)
    bounds = {
        "ids": (0, config.vocab),
        "types": (0, config.type_count),
        "lengths": (1, config.max_tokens + 1),
    }
    if parts.keys() != bounds.keys() or not all(_all_between(parts[name], *bounds[name]) for name in bounds):
        raise HplmError("corrupt_artifact", "the general text is not of this root")
    if not len(parts["ids"]) == len(parts["types"]) == int(parts["lengths"].sum()):
        raise HplmError("corrupt_artifact", "the general text is truncated")


def _all_between(numbers: Tensor, minimum: int, end: int) -> bool:
    valid = numbers.dtype == torch.int64 and numbers.dim() == 1 and len(numbers) > 0
    return valid and minimum <= int(numbers.min()) and int(numbers.max()) < end


def check_lower(folder: Path, config: RootConfig) -> None:
    """Load local lower layers of this root, and those with full context and the language model head in their
    folder, if there are any.

    Their sizes are checked before anything is allocated.
    """
    metadata = read_artifact_json(folder / LOWER_JSON)
    expected = {
        "architecture": config.architecture,
        "lower": config.lower,
        "max_tokens": config.max_tokens,
        "missing_id": config.missing_id,
        "n": config.n,
    }
    rank = metadata.get("context_rank")
    found = {name: metadata.get(name) for name in expected}
    # Artifacts of earlier versions have fewer fields.
    if isinstance(found["architecture"], dict):
        found["architecture"] = Architecture.from_json(found["architecture"])
    if found != expected:
        raise HplmError("corrupt_artifact", "the lower layers are not of this root")
    if not isinstance(rank, int) or not 0 <= rank <= config.hidden:
        raise HplmError("corrupt_artifact", "context_rank of the lower layers is invalid")
    LocalLower.load(folder)
    if (folder / FULL_LOWER_FILE).is_file():
        FullLower.load(folder / FULL_LOWER_FILE, config.architecture, config.lower)
    if (folder / LM_HEAD_FILE).is_file():
        LmHead.load(folder / LM_HEAD_FILE, config.architecture)


def check_plot(folder: Path, config: RootConfig, *, ends: bool) -> None:
    """Open a table of this root and check all its rows. ``ends``: it must have the whole vocabulary."""
    table = PlotTable.open(folder)
    if (table.hidden, table.n, table.missing_id) != (config.hidden, config.n, config.missing_id):
        raise HplmError("corrupt_artifact", "the table is not of this root")
    ladder = table.metadata.get("ladder", list(config.ladder))
    if ladder != list(config.ladder):
        raise HplmError("corrupt_artifact", f"the ladder of the table is {ladder}, not that of this root")
    if bool((np.diff(table.keys) <= 0).any()):
        raise HplmError("corrupt_artifact", "the keys of the table do not ascend")
    lengths = (len(table.composition.position_bias), len(table.composition.type_bias))
    if lengths != (config.max_tokens, config.type_count):
        raise HplmError("corrupt_artifact", "the positions or types of the table are not those of this root")
    for start in range(0, len(table), CHECK_BATCH):
        rows = table.rows[start : start + CHECK_BATCH]
        table.read_ahead(np.arange(start, start + len(rows)))
        parts = [rows[name] for name in rows.dtype.names or ()]
        if not all(bool(np.isfinite(part).all()) for part in parts):
            raise HplmError("corrupt_artifact", "the table holds NaN or infinite numbers")
    if ends:
        unigrams = np.full((config.vocab, config.n), config.missing_id, dtype=np.int64)
        unigrams[:, config.n // 2] = np.arange(config.vocab)
        if bool((table.find(pack(unigrams)) < 0).any()):
            raise HplmError("corrupt_artifact", "the root's table lacks tokens of the vocabulary")


def check_hplm(folder: Path, config: RootConfig, cascade: Path | None = None) -> dict[str, Any]:
    """Load an hPLM and its cascade, if it has one (``cascade``: the folder of a second one), and check that
    its PET fits the upper layers of this root."""
    hplm = Hplm.load(folder)
    for profile in (folder, cascade) if cascade else (folder,):
        check_cascade(profile, hplm)
    if hplm.pet.shape != UpperShape(config.upper, config.hidden, config.architecture.inner):
        raise HplmError("corrupt_artifact", "the PET does not fit the upper layers of this root")
    check_sizes(hplm)
    return {"task": hplm.task, "pairs": hplm.pairs}


def check_cascade(folder: Path, hplm: Hplm) -> None:
    """Load the cascade of an hPLM, if it has one, and check that it is of the same kind of outputs."""
    profile = CascadeProfile.load(folder)
    if profile is not None and profile.kind != OUTPUT_KINDS.get(hplm.task):
        raise HplmError("corrupt_artifact", f"{CASCADE_FILE} is of {profile.kind}, the model of {hplm.task}")
