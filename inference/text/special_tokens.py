"""The special tokens of each family of checkpoints."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """The special tokens, and the number of separators between two texts."""

    pad: str
    cls: str
    sep: str
    mask: str
    unk: str
    separators: int = 1


BERT_SPECIAL_TOKENS: Final = SpecialTokens("[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]")
ROBERTA_SPECIAL_TOKENS: Final = SpecialTokens("<pad>", "<s>", "</s>", "<mask>", "<unk>", separators=2)
MPNET_SPECIAL_TOKENS: Final = SpecialTokens("<pad>", "<s>", "</s>", "<mask>", "[UNK]", separators=2)
SPECIAL_TOKENS: Final[Mapping[str, SpecialTokens]] = {
    "bert": BERT_SPECIAL_TOKENS,
    "roberta": ROBERTA_SPECIAL_TOKENS,
    "xlm-roberta": ROBERTA_SPECIAL_TOKENS,
    "distilbert": BERT_SPECIAL_TOKENS,
    "electra": BERT_SPECIAL_TOKENS,
    "mpnet": MPNET_SPECIAL_TOKENS,
    "modernbert": BERT_SPECIAL_TOKENS,
    "deberta-v2": BERT_SPECIAL_TOKENS,
    "nomic_bert": BERT_SPECIAL_TOKENS,
    "gte": BERT_SPECIAL_TOKENS,
}
"""By the family's name."""
GEMMA_SPECIAL_TOKENS: Final = SpecialTokens("<pad>", "<bos>", "<eos>", "<mask>", "<unk>")
_OTHER_SPECIAL_TOKENS: Final[Mapping[str, SpecialTokens]] = {"modernbert": GEMMA_SPECIAL_TOKENS}
"""Of checkpoints of a family with another tokenizer, such as mmBERT; with as many separators."""


def special_tokens(family: str, has: Callable[[str], bool]) -> SpecialTokens:
    """The special tokens of a family's tokenizer, by the tokens that it `has`."""
    usual, other = SPECIAL_TOKENS[family], _OTHER_SPECIAL_TOKENS.get(family)
    return other if other is not None and not has(usual.cls) and has(other.cls) else usual
