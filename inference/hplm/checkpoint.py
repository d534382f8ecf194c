"""Reads pretrained checkpoints from a folder or the Hugging Face hub."""

import hashlib
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from torch import Tensor

from inference.errors import HplmError
from inference.hplm.architecture import Architecture
from inference.hplm.artifact_files import read_json, read_weights, to_float32
from inference.hplm.families import family_for
from inference.hplm.family import Family

PICKLED_SUFFIXES = frozenset({".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib"})
TO_SAFETENSORS: Final = (
    'python -c "import sys, torch; from safetensors.torch import save_file; '
    "w = torch.load(sys.argv[1], weights_only=True); "
    "save_file({{k: v.contiguous().clone() for k, v in w.items()}}, 'model.safetensors')\" {}"
)
"""The command that makes safetensors of a pickle, which it reads without running code."""
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that was read and validated.

    tokenizer_file: its tokenizer.json, or another file that `open_tokenizer` reads. weights: float32, with
    the same names for all families: `embeddings.…`, `layers.0.…`, and `head.…` if it has a language model
    head. sha256: of the weight files.
    """

    path: Path
    family: Family
    architecture: Architecture
    tokenizer_file: Path
    weights: dict[str, Tensor]
    name: str
    sha256: str


def open_checkpoint(source: str | Path) -> Checkpoint:
    """Read the checkpoint in the folder `source`, or download it if `source` is a hub id.

    Raises HplmError: checkpoint_not_found (no such folder or hub id, or no configuration in it),
    pickled_checkpoint (weights only in a format that runs code when read), unsupported_checkpoint
    (another family, no tokenizer.json, damaged or not finite weights).
    """
    folder = checkpoint_folder(str(source))
    raw = read_json(folder / "config.json", missing="checkpoint_not_found", damaged="unsupported_checkpoint")
    family = family_for(raw)
    architecture = family.parse(raw)
    files = weight_files(folder)
    tokenizer_file = _tokenizer_file(folder, family)
    weights: dict[str, Tensor] = {}
    for file in files:
        weights |= read_weights(file, missing="unsupported_checkpoint", damaged="unsupported_checkpoint")
    name = folder.resolve().name if Path(source).is_dir() else str(source)
    found = to_float32(family.canonical(weights, architecture, raw))
    return Checkpoint(folder, family, architecture, tokenizer_file, found, name, sha256_of(files))


def _tokenizer_file(folder: Path, family: Family) -> Path:
    for name in filter(None, ("tokenizer.json", family.tokenizer_model)):
        if (folder / name).is_file():
            return folder / name
    raise HplmError(
        "unsupported_checkpoint",
        "the checkpoint has no tokenizer.json; save its tokenizer as a fast one and try again",
    )


def checkpoint_folder(source: str) -> Path:
    """The folder `source`, or that of the hub id `source`, downloaded if it is not cached.

    Raises HplmError: checkpoint_not_found, pickled_checkpoint.
    """
    path = Path(source).expanduser()
    if path.is_dir():
        return path
    if path.suffix in PICKLED_SUFFIXES:
        raise _pickled([path.name])
    if path.exists():
        raise HplmError("checkpoint_not_found", f"{source} is a file; a checkpoint is a folder")
    if not _HUB_ID.fullmatch(source) or ".." in source:
        raise HplmError("checkpoint_not_found", f"there is no folder {source}")
    return download_checkpoint(source, pickled=PICKLED_SUFFIXES)


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a checkpoint.

    Raises HplmError: pickled_checkpoint if there are only pickles, unsupported_checkpoint if there are none.
    """
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        shards = read_json(index, damaged="unsupported_checkpoint").get("weight_map")
        if not isinstance(shards, dict) or not all(
            isinstance(v, str) and "/" not in v for v in shards.values()
        ):
            raise HplmError("unsupported_checkpoint", f"{index.name} has no usable weight_map")
        return [folder / name for name in sorted(set(shards.values()))]
    single = folder / "model.safetensors"
    if single.is_file():
        return [single]
    pickled = sorted(p.name for p in folder.iterdir() if p.suffix in PICKLED_SUFFIXES)
    if pickled:
        raise _pickled(pickled)
    raise HplmError("unsupported_checkpoint", "the checkpoint has no model.safetensors")


def _pickled(names: list[str]) -> HplmError:
    return HplmError(
        "pickled_checkpoint",
        f"weights only in {', '.join(names[:3])}: reading a pickle runs code; in the checkpoint's folder, "
        f"this command saves them as safetensors without running any: {TO_SAFETENSORS.format(names[0])}",
    )


def sha256_of(files: list[Path]) -> str:
    """The digest of the contents of the files, in their order."""
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


_ALLOW_PATTERNS = [
    *("config.json", "tokenizer.json", "*.safetensors", "*.safetensors.index.json"),
    "spm.model",
    *("generation_config.json", "tokenizer_config.json", "chat_template.jinja"),  # of decoders
    # of sentence-transformers, whose modules lie in folders of their own: `2_Dense`
    *("modules.json", "config_sentence_transformers.json", "sentence_*_config.json"),
    *("[1-9]_*/config.json", "[1-9]_*/model.safetensors"),
]
_IGNORE_PATTERNS = ["*/*/*", "[!1-9]*/*", "?[!_]*/*"]


def download_checkpoint(hub_id: str, *, pickled: Collection[str]) -> Path:
    """The local folder of `hub_id`, with its JSON and safetensors files. Downloads what is not cached.

    Raises HplmError(pickled_checkpoint), before any download, if all weights are in files with a suffix in
    `pickled`. Raises HplmError(checkpoint_not_found) if the id is unknown, or is not cached and the hub
    cannot be reached.
    """
    from huggingface_hub import snapshot_download  # slow to import, and rarely needed

    suffixes = _suffixes(hub_id)
    if ".safetensors" not in suffixes and suffixes & set(pickled):
        raise HplmError(
            "pickled_checkpoint",
            f"{hub_id} has only pickled weights; reading them runs code; download it to a folder, save them "
            f"as safetensors, and register the folder: {TO_SAFETENSORS.format('pytorch_model.bin')}",
        )
    try:
        return Path(
            snapshot_download(hub_id, allow_patterns=_ALLOW_PATTERNS, ignore_patterns=_IGNORE_PATTERNS)
        )
    except Exception as error:  # the client raises many types
        message = f"there is no folder {hub_id!r}, and fetching it from the hub failed: {error}"
        raise HplmError("checkpoint_not_found", message) from error


def _suffixes(hub_id: str) -> set[str]:
    """The suffixes of the files at the hub. Empty if it cannot be reached: a cached copy may exist."""
    from huggingface_hub import list_repo_files
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    try:
        return {PurePosixPath(name).suffix for name in list_repo_files(hub_id) if "/" not in name}
    except (HfHubHTTPError, OfflineModeIsEnabled, OSError):
        return set()
