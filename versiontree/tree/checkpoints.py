"""Quick checks of a checkpoint without torch, before anything is created.

The convert job loads the checkpoint and may still refuse it.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from inference.pickled_weights import PICKLED_SUFFIXES, pickled_reason
from tenants.base import hooks
from tenants.base.errors import ErrorCode, HmiError
from versiontree.tree.root_kind import RootKind

SUPPORTED_MODEL_TYPES: Final = {
    RootKind.ENCODER: (
        *("bert", "roberta", "xlm-roberta", "distilbert", "electra"),
        *("mpnet", "modernbert", "deberta-v2", "nomic_bert", "gte"),
    ),
    RootKind.DECODER: (
        *("llama", "mistral", "qwen2", "qwen3", "gemma3_text", "smollm3", "granite", "phi3"),
        *("gpt2", "opt"),
    ),
}
HEAD_ARCHITECTURES: Final = ("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")
"""The ends of the names of architectures that have a head, as in `inference.hplm.checkpoint_heads`."""
_POSITIONS_BEHIND_PADDING: Final = ("roberta", "xlm-roberta")
_FIRST_POSITIONS: Final = {"mpnet": 2}
_OTHER_TOKENIZERS: Final = {"deberta-v2": ("spm.model",)}
MODULES_FILE: Final = "modules.json"
_GGUF_SUFFIX: Final = ".gguf"
_GGUF_MAGIC: Final = b"GGUF"
_WEIGHTS: Final = ("model.safetensors", "model.safetensors.index.json")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_HUB_URL: Final = "https://huggingface.co/"
_MAX_SOURCE_LENGTH: Final = 1024
_DEFAULT_POSITIONS: Final = 512


def checkpoint_source(source: str, kind: RootKind = RootKind.ENCODER) -> str:
    """The absolute path of a checkpoint folder that passes the checks, or a hub id.

    ``kind`` is that of the root; of a decoder the source may also be a GGUF file.
    Raises ``missing_field``, ``checkpoint_not_found``, ``pickled_checkpoint``, ``unsupported_checkpoint``.
    """
    cleaned = source.strip()
    if not cleaned:
        raise HmiError(
            ErrorCode.MISSING_FIELD, "Name the folder or hub id of the checkpoint.", param="source"
        )
    if len(cleaned) > _MAX_SOURCE_LENGTH or not cleaned.isprintable():
        raise _error(ErrorCode.CHECKPOINT_NOT_FOUND, "A source is a folder or a hub id.")
    folder = Path(cleaned).expanduser()
    if folder.is_dir():
        for problem in folder_problems(folder, kind):
            raise problem
        return str(folder.resolve())
    if folder.suffix == _GGUF_SUFFIX and folder.is_file():
        _check_gguf(folder, kind)
        return str(folder.resolve())
    if folder.suffix in PICKLED_SUFFIXES and folder.exists():
        raise _pickled_error([folder.name])
    if folder.exists():
        raise _error(ErrorCode.CHECKPOINT_NOT_FOUND, f"{cleaned} is a file; a checkpoint is a folder.")
    if not _HUB_ID.fullmatch(cleaned) or ".." in cleaned:
        raise _error(ErrorCode.CHECKPOINT_NOT_FOUND, f"There is no folder {cleaned}.")
    return cleaned


def checkpoint_head_check(source: str) -> None:
    """Raise ``invalid_field`` if the checkpoint in a folder has no head that can be served as a model, and
    gives no embeddings as a folder of sentence-transformers. The convert job finds that out of a hub id."""
    file = Path(source) / "config.json"
    if not file.is_file() or (file.parent / MODULES_FILE).is_file():
        return
    names = json.loads(file.read_bytes()).get("architectures")
    found = str(names[0]) if isinstance(names, list) and names else "none"
    if not found.endswith(HEAD_ARCHITECTURES):
        message = (
            f"The checkpoint has no task head to make a model of: its architecture is {found[:80]}. It must"
            f" end with {', '.join(HEAD_ARCHITECTURES)}, or the folder have a {MODULES_FILE}."
        )
        raise HmiError(ErrorCode.INVALID_FIELD, message, param="first_model")


def checkpoint_hub_id(source: str, source_url: str = "") -> str:
    """The hub id of a root's checkpoint by its source, else by where it was published. "" if unknown."""
    published = source_url.removeprefix(_HUB_URL) if source_url.startswith(_HUB_URL) else ""
    return next((name for name in (source, published) if _HUB_ID.fullmatch(name)), "")


def checkpoint_max_tokens(folder: Path) -> int:
    """The maximum tokens of a text, from the positions of a checkpoint folder.

    Raises ``unsupported_checkpoint``.
    """
    try:
        config = json.loads((folder / "config.json").read_bytes())
        positions = int(config.get("max_position_embeddings", _DEFAULT_POSITIONS))
        kind = config.get("model_type")
        if kind in _POSITIONS_BEHIND_PADDING:
            positions -= int(config.get("pad_token_id", 1)) + 1
        return positions - _FIRST_POSITIONS.get(kind, 0)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise _error(ErrorCode.UNSUPPORTED_CHECKPOINT, f"{folder} holds no readable config.json.") from error


def _check_gguf(file: Path, kind: RootKind) -> None:
    if kind != RootKind.DECODER:
        raise _error(
            ErrorCode.UNSUPPORTED_CHECKPOINT, f"{file.name} is a GGUF file: register it as a decoder."
        )
    with file.open("rb") as stream:
        if stream.read(len(_GGUF_MAGIC)) != _GGUF_MAGIC:
            raise _error(ErrorCode.UNSUPPORTED_CHECKPOINT, f"{file.name} is no GGUF file.")


def folder_problems(folder: Path, kind: RootKind) -> Iterator[HmiError]:
    """What is wrong with the files of a checkpoint folder: those that are missing, and the model type."""
    if not any((folder / name).is_file() for name in _WEIGHTS):
        pickled = sorted(path.name for path in folder.iterdir() if path.suffix in PICKLED_SUFFIXES)
        missing = _error(ErrorCode.UNSUPPORTED_CHECKPOINT, f"{folder} holds no model.safetensors.")
        yield _pickled_error(pickled) if pickled else missing
    try:
        model_type = json.loads((folder / "config.json").read_bytes()).get("model_type")
    except (OSError, ValueError, AttributeError, RecursionError):
        yield _error(ErrorCode.UNSUPPORTED_CHECKPOINT, f"{folder} holds no readable config.json.")
        model_type = None
    else:
        if model_type not in SUPPORTED_MODEL_TYPES[kind]:
            yield _error(ErrorCode.UNSUPPORTED_CHECKPOINT, _unsupported(model_type, kind))
    tokenizers = ("tokenizer.json", *_OTHER_TOKENIZERS.get(str(model_type), ()))
    if not any((folder / name).is_file() for name in tokenizers):
        yield _error(ErrorCode.UNSUPPORTED_CHECKPOINT, f"{folder} holds no {' or '.join(tokenizers)}.")
    if kind == RootKind.DECODER and model_type in SUPPORTED_MODEL_TYPES[kind]:
        try:
            hooks.decoder_checkpoint_check(folder)
        except HmiError as error:
            yield error


def weight_index(folder: Path) -> list[str]:
    """The names of the safetensors files of a checkpoint folder: those of its index, or the only one.

    Raises ``unsupported_checkpoint`` for an index that names none, or files outside of the folder.
    """
    single, index = _WEIGHTS
    if not (folder / index).is_file():
        return [single]
    try:
        names = set(json.loads((folder / index).read_bytes())["weight_map"].values())
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        names = set()
    if not names or not all(isinstance(name, str) and name == Path(name).name for name in names):
        raise _error(ErrorCode.UNSUPPORTED_CHECKPOINT, f"{index} has no usable weight_map.")
    return sorted(names)


def _unsupported(model_type: object, kind: RootKind) -> str:
    for other, types in SUPPORTED_MODEL_TYPES.items():
        if model_type in types:
            return f"The model type {model_type!r} is {other.in_words}: register it as {other.in_words}."
    known = ", ".join(SUPPORTED_MODEL_TYPES[kind])
    return f"The model type {model_type!r} is not supported ({known} are)."


def _pickled_error(names: Sequence[str]) -> HmiError:
    return _error(ErrorCode.PICKLED_CHECKPOINT, f"The checkpoint has {pickled_reason(names)}")


def _error(code: ErrorCode, message: str) -> HmiError:
    return HmiError(code, message, param="source")
