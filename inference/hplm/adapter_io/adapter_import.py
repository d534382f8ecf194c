"""Converts an adapter that was trained elsewhere on the root's checkpoint to an hPLM."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import torch

from inference.hplm.adapter_io.adapter_folder import (
    AdapterRequest,
    ImportedAdapter,
    read_adapter_json,
    unsupported_adapter,
)
from inference.hplm.adapter_io.adapterhub import read_adapterhub
from inference.hplm.adapter_io.peft_config import CONFIG_FILE
from inference.hplm.adapter_io.peft_lora import read_peft
from inference.hplm.adapter_io.task_heads import check_family
from inference.hplm.artifact_files import read_artifact_json
from inference.hplm.root_config import RootConfig
from inference.pickled_weights import PICKLED_SUFFIXES
from inference.text.tokenization import ROOT_FILE

READERS: Final[Mapping[bool, Callable[[AdapterRequest, RootConfig], ImportedAdapter]]] = {
    True: read_peft,
    False: read_adapterhub,
}
"""By whether the configuration has a ``peft_type``."""


def adapter_import(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the adapter in the folder `adapter` for the root in the folder `root`, and write the hPLM into
    the folder `out`, float32. The other keys are those of `AdapterRequest`.

    Returns `task`, `labels`, `pairs`, `pet`, `dropped` and `about`. Raises HplmError if that is impossible.
    """
    request = AdapterRequest(
        folder=Path(payload["adapter"]),
        root=Path(payload["root"]),
        labels=tuple(payload["labels"]),
        task=payload["task"],
        pairs=payload["pairs"],
        drop_lower=payload["drop_lower"],
    )
    check_not_pickled(request.folder)
    config = RootConfig.from_json(read_artifact_json(request.root / ROOT_FILE))
    check_family(config)
    about = read_adapter_json(request.folder / CONFIG_FILE)
    imported = READERS["peft_type" in about](request, config)
    imported.hplm.save(Path(payload["out"]), torch.float32)
    hplm = imported.hplm
    return {
        "task": hplm.task,
        "labels": list(hplm.labels),
        "pairs": hplm.pairs,
        "pet": hplm.pet.spec.to_json(),
        "dropped": list(imported.dropped),
        "about": dict(imported.about),
    }


def check_not_pickled(folder: Path) -> None:
    """Raise HplmError(invalid_archive) if the folder has a pickle."""
    if pickled := sorted(file.name for file in folder.iterdir() if file.suffix in PICKLED_SUFFIXES):
        raise unsupported_adapter(
            f"{pickled[0][:80]} is a pickle file, which can run code. Save it as safetensors"
        )
