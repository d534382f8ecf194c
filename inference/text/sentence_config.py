"""How a root makes embeddings, which a folder of sentence-transformers says: a section of root.json."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from inference.errors import HplmError, reason
from inference.text.tokenization import MIN_TOKENS, ROOT_FILE, TextTokenizer

PoolingMode = Literal["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
Activation = Literal["identity", "tanh", "relu", "gelu", "sigmoid", "silu"]
NORMALIZE: Final = "normalize"
SECTION: Final = "sentence"
MAX_MODULES: Final = 8
MAX_PROMPTS: Final = 100
MAX_PROMPT_CHARACTERS: Final = 4000
Prompt = Annotated[str, Meta(max_length=MAX_PROMPT_CHARACTERS)]


@dataclass(frozen=True, slots=True)
class SentenceConfig:
    """How embeddings are made. The default is that of roots whose checkpoint does not say.

    pooling: what is read of the final states of a text's tokens, put together to one vector. modules: what
    follows, in order: `normalize`, or a dense layer, named by its activation. prompts: texts that are put
    before a text, by name; default_prompt: the name of the one that is put there if none is asked for.
    max_tokens: of a text with its prompt (None: as many as the root reads).
    """

    pooling: Annotated[tuple[PoolingMode, ...], Meta(min_length=1, max_length=6)] = ("mean",)
    modules: Annotated[tuple[Activation | Literal["normalize"], ...], Meta(max_length=MAX_MODULES)] = (
        NORMALIZE,
    )
    prompts: Annotated[Mapping[str, Prompt], Meta(max_length=MAX_PROMPTS)] = field(default_factory=dict)
    default_prompt: str | None = None
    max_tokens: Annotated[int, Meta(ge=MIN_TOKENS)] | None = None

    def __post_init__(self) -> None:
        if self.default_prompt is not None and self.default_prompt not in self.prompts:
            names = ", ".join(self.prompts) or "none"
            raise ValueError(f"the default prompt {self.default_prompt!r} is not one of the prompts: {names}")

    def prompt(self, name: str | None) -> str:
        """The prompt of this name (None: the default one, or none). Raises KeyError for an unknown name."""
        name = self.default_prompt if name is None else name
        return "" if name is None else self.prompts[name]

    def tokenizer(self, tokenizer: TextTokenizer) -> TextTokenizer:
        """The root's tokenizer, which truncates where embeddings end."""
        return tokenizer if self.max_tokens is None else tokenizer.with_max_tokens(self.max_tokens)

    @classmethod
    def of_root(cls, folder: Path) -> "SentenceConfig":
        """From the root.json of a root's artifact. Raises HplmError(corrupt_artifact)."""
        try:
            section = json.loads((folder / ROOT_FILE).read_bytes()).get(SECTION)
        except (OSError, ValueError, AttributeError) as error:
            raise HplmError("corrupt_artifact", f"{ROOT_FILE} cannot be read: {reason(error)}") from error
        return cls() if section is None else cls.from_json(section)

    @classmethod
    def from_json(cls, section: object, code: str = "corrupt_artifact") -> "SentenceConfig":
        """Its fields from a JSON object. Raises HplmError with this code."""
        try:
            return msgspec.convert(section, cls)
        except msgspec.ValidationError as error:
            raise HplmError(code, f"embeddings: {error}") from error
