"""One decoder root's texts: prompts as token ids, and generated tokens as text."""

import json
from dataclasses import dataclass
from pathlib import Path

import tokenizers

from inference.errors import HplmError, reason
from inference.text.chat_template import ChatTemplate
from inference.text.detokenizer import Detokenizer
from inference.text.prompts import PromptTokenizer
from inference.text.tokenization import DECODER_FILE, TOKENIZER_FILE


@dataclass(frozen=True, slots=True, eq=False)
class GenerativeCodec:
    """Of a decoder root, for all its models. Thread-safe.

    max_tokens: the longest context, of prompt and completion together. stop_tokens: ids that end a
    completion.
    """

    prompts: PromptTokenizer
    detokenizer: Detokenizer
    max_tokens: int
    stop_tokens: frozenset[int]

    @classmethod
    def of_root(cls, folder: Path) -> "GenerativeCodec":
        """The codec of a decoder root's artifact. Raises HplmError: corrupt_artifact, or
        unsupported_checkpoint for a tokenizer or a chat template that cannot be used."""
        try:
            config = json.loads((folder / DECODER_FILE).read_bytes())
            content = (folder / TOKENIZER_FILE).read_text(encoding="utf-8")
            # Two, since each sets up its own tokenizer.
            read, written = (tokenizers.Tokenizer.from_str(content) for _ in range(2))
            max_tokens, stop_tokens = int(config["max_tokens"]), frozenset(map(int, config["stop_ids"]))
        except Exception as error:  # the library raises bare exceptions
            message = f"the decoder root cannot be read: {reason(error)}"
            raise HplmError("corrupt_artifact", message) from error
        template = ChatTemplate.of_root(folder)
        return cls(PromptTokenizer(read, template), Detokenizer(written), max_tokens, stop_tokens)
