"""Tokenizes rows with a root's tokenizer: how well it fits (unknown and truncated tokens), and single rows.

A vocabulary of words or word pieces has an unknown token. A byte-level vocabulary (RoBERTa's) has none: a
script it never saw is encoded byte by byte. For it the measure is the number of tokens per word, a word being
what the pre-tokenizer yields, including punctuation and numbers.

Tokens per word of byte-level vocabularies of 2,000 to 50,000 pieces learnt from English: English prose 1.2 to
2, program code 1.4 to 2, English with many terms (molecular biology) 2.1 to 3, German and French 2.1 to 3.1,
Finnish 4.3 to 5.4, Russian, Greek and Arabic 10 to 11, Chinese 15 and more. Published vocabularies need fewer
for other scripts, but hardly fewer than one per letter. German cannot be told from English terms by this, and
domains are made for terms. So the limit lies above both, and what exceeds it is surely foreign.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from tokenizers import Encoding, Tokenizer

from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.formats.sampling import FlaggedLocations, RowLocation, Texts

MAX_UNKNOWN_SHARE = 0.05
MAX_UNKNOWN_SHARE_OF_ROW = 0.5
MAX_TOKENS_PER_WORD = 3.0
MAX_LONG_SHARE = 0.05
MAX_CHARACTERS = 100_000
"""More than any root reads. Limits the time for one very long line."""
MAX_TRUNCATED_SHOWN = 12

FOREIGN = "Is this text in a language the root was not trained on?"
UNKNOWN_TOKENS = ("[UNK]", "<unk>", "<UNK>", "unk")


class LongTextPolicy(StrEnum):
    """What happens to a text that is longer than the root reads."""

    CUT = "cut"
    PIECES = "pieces"
    WINDOWS = "windows"


@dataclass(slots=True)
class TokenizerFit:
    """How a tokenizer encodes a sample of ``rows`` out of ``total_rows``.

    ``tokens`` and ``words`` exclude special tokens; ``longest`` and ``max_tokens`` include them. Shares are
    between 0 and 1, of the tokens or rows of the sample.
    """

    total_rows: int
    max_tokens: int
    too_long: LongTextPolicy = LongTextPolicy.CUT
    byte_level: bool = False
    rows: int = 0
    tokens: int = 0
    words: int = 0
    unknown_tokens: int = 0
    longest: int = 0
    lengths: Counter[int] = field(default_factory=Counter)
    """Rows by the bit length of their number of tokens."""
    unknown: FlaggedLocations = field(default_factory=FlaggedLocations)
    """Rows with mostly unknown tokens, or with too many tokens per word."""
    partly_unknown: FlaggedLocations = field(default_factory=FlaggedLocations)
    long: FlaggedLocations = field(default_factory=FlaggedLocations)

    @property
    def unknown_share(self) -> float:
        return self.unknown_tokens / self.tokens if self.tokens else 0.0

    @property
    def tokens_per_word(self) -> float:
        return self.tokens / self.words if self.words else 0.0

    @property
    def long_share(self) -> float:
        """The share of rows that are longer than the root reads."""
        return self.long.rows / self.rows if self.rows else 0.0

    @property
    def truncated(self) -> FlaggedLocations:
        """The rows that are truncated."""
        return self.long if self.too_long is LongTextPolicy.CUT else FlaggedLocations()

    @property
    def truncated_share(self) -> float:
        return self.truncated.rows / self.rows if self.rows else 0.0

    @property
    def warnings(self) -> list[str]:
        """Problems of the texts, as sentences."""
        return fit_warnings(self)


def tokenizer_fit(
    rows: Iterable[tuple[RowLocation, Texts]],
    *,
    tokenizer: Path,
    max_tokens: int,
    total_rows: int,
    too_long: LongTextPolicy = LongTextPolicy.CUT,
) -> TokenizerFit:
    """Tokenize rows (of one text or two) with a ``tokenizer.json``.

    ``max_tokens`` is the longest input of the root including special tokens. Raises ``not_found`` or
    ``unsupported_checkpoint`` if the file cannot be read.
    """
    loaded = load_tokenizer(tokenizer)
    unknown = {token_id for name in UNKNOWN_TOKENS if (token_id := loaded.token_to_id(name)) is not None}
    fit = TokenizerFit(total_rows, max_tokens, too_long, byte_level=_is_byte_level(loaded))
    for location, texts in rows:
        encoding = _encode(loaded, texts)
        special = loaded.num_special_tokens_to_add(len(texts) > 1)
        _count(fit, location, encoding, special, sum(token_id in unknown for token_id in encoding.ids))
    return fit


def _encode(tokenizer: Tokenizer, texts: Texts) -> Encoding:
    """The tokens of a text or a pair. `encode` would keep other threads of a web process waiting: it holds
    Python's lock."""
    first, *pair = (text[:MAX_CHARACTERS] for text in texts)
    row = (first, pair[0]) if pair else first
    return tokenizer.encode_batch([row], add_special_tokens=False)[0]


def fit_warnings(fit: TokenizerFit) -> list[str]:
    """Problems of the texts, as sentences."""
    warnings = [warning for warn in (_unknown, _tokens_per_word, _long) if (warning := warn(fit))]
    if fit.rows == fit.total_rows:
        return warnings
    sample = f"This is from a sample of {fit.rows:,} of {fit.total_rows:,} rows."
    return [f"{warning} {sample}" for warning in warnings]


def _count(fit: TokenizerFit, location: RowLocation, encoding: Encoding, special: int, unknown: int) -> None:
    tokens = len(encoding.ids)
    words = len(set(zip(encoding.sequence_ids, encoding.word_ids, strict=True)))
    fit.rows += 1
    fit.tokens += tokens
    fit.words += words
    fit.unknown_tokens += unknown
    fit.longest = max(fit.longest, tokens + special)
    fit.lengths[(tokens + special).bit_length()] += 1
    many_tokens = fit.byte_level and tokens > words * MAX_TOKENS_PER_WORD
    if unknown > tokens * MAX_UNKNOWN_SHARE_OF_ROW or many_tokens:
        fit.unknown.add(location)
    if unknown > tokens * MAX_UNKNOWN_SHARE:
        fit.partly_unknown.add(location)
    if tokens + special > fit.max_tokens:
        fit.long.add(location)


def _unknown(fit: TokenizerFit) -> str:
    if fit.unknown_share <= MAX_UNKNOWN_SHARE:
        return ""
    rows, question = (fit.unknown, f" {FOREIGN}") if fit.unknown.rows else (fit.partly_unknown, "")
    share = f"{fit.unknown_share:.1%} of the tokens are unknown to the root's vocabulary"
    return f"{share} ({rows.as_text}).{question}"


def _tokens_per_word(fit: TokenizerFit) -> str:
    if not fit.byte_level or fit.tokens_per_word <= MAX_TOKENS_PER_WORD:
        return ""
    ratio = f"A word takes {fit.tokens_per_word:.1f} tokens of the root's vocabulary, which is a lot"
    return f"{ratio} ({fit.unknown.as_text}). {FOREIGN}"


def _long(fit: TokenizerFit) -> str:
    if fit.too_long is LongTextPolicy.WINDOWS or fit.long_share <= MAX_LONG_SHARE:
        return ""
    effect = "split into pieces" if fit.too_long is LongTextPolicy.PIECES else "truncated"
    return (
        f"{fit.long_share:.1%} of the rows are longer than the {fit.max_tokens:,} tokens the root reads (the"
        f" longest has {fit.longest:,}; {fit.long.as_text}); they are {effect}."
    )


def _is_byte_level(tokenizer: Tokenizer) -> bool:
    if tokenizer.pre_tokenizer is None:
        return False
    config = json.loads(tokenizer.pre_tokenizer.__getstate__())
    return any(step["type"] == "ByteLevel" for step in config.get("pretokenizers", [config]))


def load_tokenizer(path: Path) -> Tokenizer:
    """A root's tokenizer without truncation and padding. Raises as ``tokenizer_fit``."""
    if not path.is_file():
        raise HmiError(ErrorCode.NOT_FOUND, "The root has no tokenizer file.", param="root")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:
        # The library raises plain Exception for whatever it cannot read.
        raise HmiError(
            ErrorCode.UNSUPPORTED_CHECKPOINT, "The root's tokenizer file cannot be read.", param="root"
        ) from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


@dataclass(frozen=True, slots=True)
class TokenRow:
    """The tokens of one row: those the root reads, and the first of those that are truncated."""

    location: RowLocation
    tokens: list[str]
    truncated: list[str]
    truncated_count: int


def tokenize_rows(
    rows: Iterable[tuple[RowLocation, Texts]], *, tokenizer: Path, max_tokens: int
) -> list[TokenRow]:
    """Tokenize rows with a ``tokenizer.json``. Of two texts the longer is truncated first, as in training."""
    loaded = load_tokenizer(tokenizer)
    token_rows = []
    for location, texts in rows:
        parts = [_encode(loaded, (text,)) for text in texts]
        limit = max_tokens - loaded.num_special_tokens_to_add(len(parts) > 1)
        sizes = _truncated_sizes([len(part.ids) for part in parts], limit)
        tokens = [token for part, size in zip(parts, sizes, strict=True) for token in part.tokens[:size]]
        truncated = [token for part, size in zip(parts, sizes, strict=True) for token in part.tokens[size:]]
        token_rows.append(TokenRow(location, tokens, truncated[:MAX_TRUNCATED_SHOWN], len(truncated)))
    return token_rows


def _truncated_sizes(sizes: list[int], limit: int) -> list[int]:
    """How many tokens of each text fit into the limit."""
    if len(sizes) == 1 or sum(sizes) <= limit:
        return [min(sizes[0], limit), *sizes[1:]]
    half = limit // 2
    if sizes[1] <= half:
        return [limit - sizes[1], sizes[1]]
    if sizes[0] <= half:
        return [sizes[0], limit - sizes[0]]
    return [limit - half, half]
