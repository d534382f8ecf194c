"""`python -m inference.hplm.artifact_check`: load artifacts that came from elsewhere, and say whether all is
well.

Reads a JSON object from stdin: `root` (a folder), `root_is_new`, `lowers`, `plots` (nearest first), `ends`
(the last table is the root's own), `hplm` (a folder or null). Writes one line of JSON: `{"error"}`, or
`{"task", "pairs"}` of the hPLM. Only what is new is read whole; a root that is known gives its shape.

Where the object names an `adapter`, it is read as `inference.hplm.adapter_io.adapter_import` says; where it
names a `format`, an hPLM is written as `inference.hplm.adapter_io.adapter_export` says.
"""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from inference.hplm.adapter_io.adapter_export import adapter_export
from inference.hplm.adapter_io.adapter_folder import LowerLayersChangedError
from inference.hplm.adapter_io.adapter_import import adapter_import
from inference.hplm.artifact_files import read_artifact_json, read_weights
from inference.hplm.errors import HplmError
from inference.hplm.fragments import pack
from inference.hplm.hplm import Hplm, check_sizes
from inference.hplm.local_lower import JSON_FILE as LOWER_JSON
from inference.hplm.local_lower import LocalLower
from inference.hplm.pets import UpperShape
from inference.hplm.plot import PlotTable
from inference.hplm.root import GENERAL_TEXT_FILE, LM_HEAD_FILE, ROOT_FILE, LmHead, Root
from inference.hplm.root_config import RootConfig

CHECK_BATCH = 65_536


def check_artifacts(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """What the hPLM says of itself, once everything was loaded and fits the root; HplmError otherwise."""
    config = RootConfig.from_json(read_artifact_json(Path(wanted["root"]) / ROOT_FILE))
    if wanted["root_is_new"]:
        root = Root.load(Path(wanted["root"]))
        root.checkpoint_lower()
        root.lm_head()
        root.pooler()
        root.tokenizer.encode("a text")
        check_general_text(Path(wanted["root"]), config)
    for folder in wanted["lowers"]:
        check_lower(Path(folder), config)
    for number, folder in enumerate(wanted["plots"], start=1):
        check_plot(Path(folder), config, ends=wanted["ends"] and number == len(wanted["plots"]))
    return check_hplm(Path(wanted["hplm"]), config) if wanted["hplm"] else {}


def check_general_text(folder: Path, config: RootConfig) -> None:
    """Read the text kept with a root, if there is any: its ids are looked up in the root's tables."""
    if not (folder / GENERAL_TEXT_FILE).is_file():
        return
    parts = read_weights(folder / GENERAL_TEXT_FILE)
    bounds = {
        "ids": (0, config.vocab),
        "types": (0, config.type_count),
        "lengths": (1, config.max_tokens + 1),
    }
    if parts.keys() != bounds.keys() or not all(_within(parts[name], *bounds[name]) for name in bounds):
        raise HplmError("corrupt_artifact", "the general text is not of this root")
    if not len(parts["ids"]) == len(parts["types"]) == int(parts["lengths"].sum()):
        raise HplmError("corrupt_artifact", "the general text is cut")


def _within(numbers: Tensor, least: int, end: int) -> bool:
    whole = numbers.dtype == torch.int64 and numbers.dim() == 1 and len(numbers) > 0
    return whole and least <= int(numbers.min()) and int(numbers.max()) < end


def check_lower(folder: Path, config: RootConfig) -> None:
    """Load local lower layers that must belong to this root, once they do not claim to be larger, and the
    language model head that may lie beside them."""
    about = read_artifact_json(folder / LOWER_JSON)
    expected = {
        "architecture": config.architecture.to_json(),
        "lower": config.lower,
        "max_tokens": config.max_tokens,
        "missing_id": config.missing_id,
        "n": config.n,
    }
    rank = about.get("context_rank")
    if {name: about.get(name) for name in expected} != expected:
        raise HplmError("corrupt_artifact", "the lower layers are not of this root")
    if not isinstance(rank, int) or not 0 <= rank <= config.hidden:
        raise HplmError("corrupt_artifact", "the context of the lower layers has no sensible rank")
    LocalLower.load(folder)
    if (folder / LM_HEAD_FILE).is_file():
        LmHead.load(folder / LM_HEAD_FILE, config.architecture)


def check_plot(folder: Path, config: RootConfig, *, ends: bool) -> None:
    """Open a table that must belong to this root; one that ends chains holds the whole vocabulary."""
    table = PlotTable.open(folder)
    if (table.hidden, table.n, table.missing_id) != (config.hidden, config.n, config.missing_id):
        raise HplmError("corrupt_artifact", "the table is not of this root")
    if bool((np.diff(table.keys) <= 0).any()):
        raise HplmError("corrupt_artifact", "the keys of the table do not ascend")
    lengths = (len(table.composition.position_bias), len(table.composition.type_bias))
    if lengths != (config.max_tokens, config.type_count):
        raise HplmError("corrupt_artifact", "the positions or types of the table are not those of this root")
    for start in range(0, len(table), CHECK_BATCH):
        rows = table.rows[start : start + CHECK_BATCH]
        parts = [rows[name] for name in rows.dtype.names or ()]
        if not all(bool(np.isfinite(part).all()) for part in parts):
            raise HplmError("corrupt_artifact", "the table holds NaN or infinite numbers")
    if ends:
        single = np.full((config.vocab, config.n), config.missing_id, dtype=np.int64)
        single[:, config.n // 2] = np.arange(config.vocab)
        if bool((table.find(pack(single)) < 0).any()):
            raise HplmError("corrupt_artifact", "the root's table lacks tokens of the vocabulary")


def check_hplm(folder: Path, config: RootConfig) -> dict[str, Any]:
    """Load an hPLM whose PET must fit the upper layers of this root."""
    hplm = Hplm.load(folder)
    if hplm.pet.shape != UpperShape(config.upper, config.hidden, config.architecture.inner):
        raise HplmError("corrupt_artifact", "the PET does not fit the upper layers of this root")
    check_sizes(hplm)
    return {"task": hplm.task, "pairs": hplm.pairs}


def run_request(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """As ``check_artifacts``; what does not fit is told as ``error``."""
    try:
        return _command(wanted)(wanted)
    except LowerLayersChangedError as error:
        return {"error": error.message, "lower": error.names}
    except HplmError as error:
        return {"error": error.message}
    # A stranger's files reach code that counts on what this product writes: any of it may fail.
    except Exception as error:  # noqa: BLE001
        return {"error": f"{type(error).__name__}: {str(error)[:300]}"}


def _command(wanted: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    if "adapter" in wanted:
        return adapter_import
    return adapter_export if "format" in wanted else check_artifacts


def main() -> None:
    """Answer in one line; exit code 0 unless this program itself is wrong."""
    sys.stdout.write(json.dumps(run_request(json.load(sys.stdin))) + "\n")


if __name__ == "__main__":
    main()
