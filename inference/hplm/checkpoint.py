"""Reads pretrained checkpoints from folders."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from torch import Tensor

from inference.errors import HplmError
from inference.hplm.architecture import Architecture
from inference.hplm.artifact_files import read_json, read_weights, to_float32
from inference.hplm.families import family_for
from inference.hplm.family import Family
from inference.machine_memory import check_weights_fit
from inference.pickled_weights import PICKLED_SUFFIXES, pickled_reason

_SINGLE_FILE: Final = "model.safetensors"
_INDEX_FILE: Final = "model.safetensors.index.json"


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
    """Read the checkpoint in the folder `source`.

    Raises HplmError: checkpoint_not_found (no such folder, or no configuration in it), pickled_checkpoint
    (weights only in a format that runs code when read), out_of_memory (weights larger than the machine's
    memory), unsupported_checkpoint (another family, no tokenizer.json, damaged or not finite weights).
    """
    folder = checkpoint_folder(source)
    raw = read_json(folder / "config.json", missing="checkpoint_not_found", damaged="unsupported_checkpoint")
    family = family_for(raw)
    architecture = family.parse(raw)
    tokenizer_file = _tokenizer_file(folder, family)
    stored, sha256 = checkpoint_weights(folder)
    weights = family.canonical(stored, architecture, raw)
    for name, value in weights.items():
        if not value.is_floating_point():
            raise HplmError("unsupported_checkpoint", f"{name} is stored as {value.dtype}")
    return Checkpoint(
        folder, family, architecture, tokenizer_file, to_float32(weights), folder.resolve().name, sha256
    )


def _tokenizer_file(folder: Path, family: Family) -> Path:
    for name in filter(None, ("tokenizer.json", family.tokenizer_model)):
        if (folder / name).is_file():
            return folder / name
    raise HplmError(
        "unsupported_checkpoint",
        "the checkpoint has no tokenizer.json; save its tokenizer as a fast one and try again",
    )


def checkpoint_folder(source: str | Path) -> Path:
    """The folder `source`. Raises HplmError: checkpoint_not_found, pickled_checkpoint."""
    path = Path(source).expanduser()
    if path.is_dir():
        return path
    if path.suffix in PICKLED_SUFFIXES:
        raise HplmError("pickled_checkpoint", pickled_reason([path.name]))
    what = (
        f"{source} is a file; a checkpoint is a folder" if path.exists() else f"there is no folder {source}"
    )
    raise HplmError("checkpoint_not_found", what)


def checkpoint_weights(folder: Path) -> tuple[dict[str, Tensor], str]:
    """The tensors of a checkpoint's safetensors files, as they are stored, and the sha256 of the files.

    Raises HplmError: what `weight_files` raises, out_of_memory if the files are larger than the machine's
    memory, unsupported_checkpoint for damaged files, numbers that are not finite and a wrong index.
    """
    files = weight_files(folder)
    # Their headers claim as much: safetensors refuses one that claims more than its file has.
    check_weights_fit(sum(file.stat().st_size for file in files if file.is_file()))
    shards = _weight_map(folder)
    weights: dict[str, Tensor] = {}
    for file in files:
        found = read_weights(file, missing="unsupported_checkpoint", damaged="unsupported_checkpoint")
        for name, shard in shards.items():
            if shard == file.name and name not in found:
                raise _wrong_index(f"{name} is in {shard}, which lacks it")
        for name in sorted(weights.keys() & found.keys()):
            raise _wrong_index(f"{name} is in {shards.get(name)}, but {file.name} has it, too")
        weights |= found
    return weights, sha256_of(files)


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a checkpoint: those of its index, or the only one.

    Raises HplmError: pickled_checkpoint if there are only pickles, unsupported_checkpoint if there are none.
    """
    if shards := _weight_map(folder):
        return [folder / name for name in sorted(set(shards.values()))]
    single = folder / _SINGLE_FILE
    if single.is_file():
        return [single]
    if pickled := sorted(path.name for path in folder.iterdir() if path.suffix in PICKLED_SUFFIXES):
        raise HplmError("pickled_checkpoint", pickled_reason(pickled))
    raise HplmError("unsupported_checkpoint", f"the checkpoint has no {_SINGLE_FILE}")


def _weight_map(folder: Path) -> Mapping[str, str]:
    """The file of each tensor, by the index of a checkpoint in several files. Empty if it has no index."""
    index = folder / _INDEX_FILE
    if not index.is_file():
        return {}
    shards = read_json(index, damaged="unsupported_checkpoint").get("weight_map")
    if not isinstance(shards, dict) or not shards:
        raise HplmError("unsupported_checkpoint", f"{_INDEX_FILE} has no weight_map")
    for name, shard in shards.items():
        if not isinstance(shard, str) or shard != Path(shard).name or not shard.endswith(".safetensors"):
            raise _wrong_index(f"{name} is in {shard!r}, which is no safetensors file of this folder")
    return shards


def _wrong_index(message: str) -> HplmError:
    return HplmError("unsupported_checkpoint", f"{_INDEX_FILE} says that {message}")


def sha256_of(files: list[Path]) -> str:
    """The digest of the contents of the files, in their order."""
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
