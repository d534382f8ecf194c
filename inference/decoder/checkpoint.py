"""Reads pretrained decoders from a folder or a GGUF file."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from torch import Tensor

from inference.decoder.architecture import DecoderArchitecture
from inference.decoder.decoder import check_weights
from inference.decoder.families import decoder_family_for
from inference.errors import HplmError
from inference.hplm.artifact_files import read_json
from inference.hplm.checkpoint import checkpoint_folder, checkpoint_weights
from inference.text.chat_template import source_in_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderCheckpoint:
    """A pretrained decoder that was read and validated.

    weights: as `architecture.weight_shapes()` says, in their stored dtypes. tokenizer: the content of a
    tokenizer.json. chat_template: Jinja, "" if there is none. bos_id: the token that begins a text, if there
    is one. stop_ids: the tokens that end an answer. sha256: of the weight files.
    """

    name: str
    architecture: DecoderArchitecture
    weights: dict[str, Tensor]
    tokenizer: str
    chat_template: str
    bos_id: int | None
    stop_ids: tuple[int, ...]
    sha256: str


def open_decoder_checkpoint(source: str | Path) -> DecoderCheckpoint:
    """Read the decoder in the folder or GGUF file `source`.

    Raises HplmError: checkpoint_not_found (no such folder or file, or no configuration in it),
    pickled_checkpoint (weights only in a format that runs code when read), out_of_memory (weights larger than
    the machine's memory), unsupported_checkpoint (another family or variant, no tokenizer, damaged, missing,
    misshapen or not finite weights).
    """
    file = Path(source).expanduser()
    if file.suffix == ".gguf":
        # It imports transformers, which takes longer than importing torch.
        from inference.decoder.gguf_checkpoint import open_gguf_checkpoint

        if not file.is_file():
            raise HplmError("checkpoint_not_found", f"there is no file {source}")
        return open_gguf_checkpoint(file)
    return _open_folder(checkpoint_folder(source))


def _open_folder(folder: Path) -> DecoderCheckpoint:
    raw = read_json(folder / "config.json", missing="checkpoint_not_found", damaged="unsupported_checkpoint")
    family = decoder_family_for(raw)
    architecture = family.parse(raw)
    stored, sha256 = checkpoint_weights(folder)
    weights = family.canonical(stored, architecture)
    check_weights(architecture, weights)
    generation = _optional_json(folder / "generation_config.json")
    chat_template = source_in_folder(folder) or ""
    return DecoderCheckpoint(
        name=folder.resolve().name,
        architecture=architecture,
        weights=weights,
        tokenizer=_read_tokenizer(folder, architecture, chat_template),
        chat_template=chat_template,
        bos_id=next(iter(token_ids(raw.get("bos_token_id"), architecture)), None),
        stop_ids=token_ids(generation.get("eos_token_id", raw.get("eos_token_id")), architecture),
        sha256=sha256,
    )


def _read_tokenizer(folder: Path, architecture: DecoderArchitecture, chat_template: str) -> str:
    file = folder / "tokenizer.json"
    if not file.is_file():
        raise HplmError(
            "unsupported_checkpoint",
            "the checkpoint has no tokenizer.json; save its tokenizer as a fast one and try again",
        )
    raw = read_json(file, damaged="unsupported_checkpoint")
    content = _without_placeholders(raw, file.read_text(encoding="utf-8"), architecture, chat_template)
    return checked_tokenizer(content, architecture)


def _without_placeholders(
    raw: dict[str, Any], content: str, architecture: DecoderArchitecture, chat_template: str
) -> str:
    """The content of a tokenizer.json without added tokens behind the vocabulary that no chat has.

    Gemma's has one for images, which text models have no embedding for.
    """
    added = raw.get("added_tokens")
    if not isinstance(added, list) or not all(isinstance(token, dict) for token in added):
        return content

    def is_placeholder(token: dict[str, Any]) -> bool:
        number, text = token.get("id"), token.get("content")
        is_behind = isinstance(number, int) and number >= architecture.vocab
        return is_behind and isinstance(text, str) and text not in chat_template

    kept = [token for token in added if not is_placeholder(token)]
    return content if kept == added else json.dumps({**raw, "added_tokens": kept}, ensure_ascii=False)


def checked_tokenizer(
    content: str, architecture: DecoderArchitecture, code: str = "unsupported_checkpoint"
) -> str:
    """The content of a tokenizer.json. Raises HplmError with `code` if it cannot be read or has ids outside
    the vocabulary."""
    try:
        tokenizer = Tokenizer.from_str(content)
    except Exception as error:  # the library raises no type of its own
        raise HplmError(code, f"tokenizer.json cannot be read: {error}") from error
    highest = max(tokenizer.get_vocab().values(), default=0)
    if highest >= architecture.vocab:
        raise HplmError(
            code, f"tokenizer.json has the id {highest}, but the vocabulary has {architecture.vocab} tokens"
        )
    return content


def _optional_json(path: Path) -> dict[str, Any]:
    return read_json(path, damaged="unsupported_checkpoint") if path.is_file() else {}


def token_ids(value: object, architecture: DecoderArchitecture) -> tuple[int, ...]:
    """The ids in a field that holds one, several or none.

    Raises HplmError(unsupported_checkpoint) for anything else and for ids outside the vocabulary.
    """
    ids = [] if value is None else value if isinstance(value, list) else [value]
    for token in ids:
        if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < architecture.vocab:
            raise HplmError("unsupported_checkpoint", f"{token!r} is not a token of the vocabulary")
    return tuple(ids)
