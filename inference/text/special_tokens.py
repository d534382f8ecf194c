"""The special tokens of each family of checkpoints."""

from collections.abc import Mapping
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
