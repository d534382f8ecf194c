"""How well a root's tokenizer fits texts: what its vocabulary does not know, and what its length cuts off.

A vocabulary of words or pieces shows what it does not know as an unknown token. One of bytes (RoBERTa's)
knows everything: a script it never learnt comes out byte by byte. So there the measure is how many tokens a
word takes, a word being what the tokenizer itself parts a text into, signs and numbers included.

Measured with byte-level vocabularies of 2,000 to 50,000 pieces learnt from English: English prose takes 1.2
to 2 tokens a word, program code 1.4 to 2, English full of terms (molecular biology) 2.1 to 3, German and
French 2.1 to 3.1, Finnish 4.3 to 5.4, Russian, Greek and Arabic 10 to 11, Chinese 15 and more. Published
vocabularies know some pieces of other scripts and need fewer there, but hardly fewer than one a letter.
Languages that look like English cannot be told from terms of a trade by this, and terms are what domains are
made for; so the bound lies above them, and what is beyond it is surely foreign.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from tokenizers import Encoding, Tokenizer

from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.formats.sampling import Found, LinePlace, Texts

MUCH_UNKNOWN = 0.05
MOST_UNKNOWN = 0.5
MANY_TOKENS_A_WORD = 3.0
MUCH_LONG = 0.05
LONGEST_READ = 100_000
"""Characters: longer than any root reads, and one endless line does not hold up a request."""

FOREIGN = "Is this text in a language the root was not trained on?"
UNKNOWN_TOKENS = ("[UNK]", "<unk>", "<UNK>", "unk")


class TooLong(StrEnum):
    """What becomes of a text that is longer than the root reads."""

    CUT = "cut"
    PIECES = "pieces"
    WINDOWS = "windows"


@dataclass(slots=True)
class TokenizerFit:
    """What a tokenizer made of the ``rows`` that were read, out of ``of_rows``.

    ``tokens`` and ``words`` are without the marks that frame a text, ``longest`` and ``max_tokens`` with
    them. Shares are in 0..1: of tokens, and of the rows read.
    """

    of_rows: int
    max_tokens: int
    too_long: TooLong = TooLong.CUT
    byte_level: bool = False
    rows: int = 0
    tokens: int = 0
    words: int = 0
    unknown_tokens: int = 0
    longest: int = 0
    lengths: Counter[int] = field(default_factory=Counter)
    """How many rows have so many tokens, by the number of binary digits of that."""
    unknown: Found = field(default_factory=Found)
    """Rows that the vocabulary hardly knows: most is unknown, or a word takes very many tokens."""
    partly_unknown: Found = field(default_factory=Found)
    long: Found = field(default_factory=Found)

    @property
    def unknown_share(self) -> float:
        """The share of tokens that the vocabulary does not know."""
        return self.unknown_tokens / self.tokens if self.tokens else 0.0

    @property
    def tokens_per_word(self) -> float:
        """How many tokens a word takes on average."""
        return self.tokens / self.words if self.words else 0.0

    @property
    def long_share(self) -> float:
        """The share of rows that are longer than the root reads."""
        return self.long.rows / self.rows if self.rows else 0.0

    @property
    def truncated(self) -> Found:
        """The rows that lose their end."""
        return self.long if self.too_long is TooLong.CUT else Found()

    @property
    def truncated_share(self) -> float:
        """The share of rows that lose their end."""
        return self.truncated.rows / self.rows if self.rows else 0.0

    @property
    def warnings(self) -> list[str]:
        """What the owner of the texts should know before anything is trained on them."""
        return fit_warnings(self)


def tokenizer_fit(
    rows: Iterable[tuple[LinePlace, Texts]],
    *,
    tokenizer: Path,
    max_tokens: int,
    of_rows: int,
    too_long: TooLong = TooLong.CUT,
) -> TokenizerFit:
    """Tokenise rows (each of one text or two) with a ``tokenizer.json``.

    ``max_tokens`` is the longest input of the root with its marks. Raises ``not_found`` or
    ``unsupported_checkpoint`` when the file cannot be read.
    """
    reader = open_tokenizer(tokenizer)
    unknown = {number for name in UNKNOWN_TOKENS if (number := reader.token_to_id(name)) is not None}
    fit = TokenizerFit(of_rows, max_tokens, too_long, byte_level=_is_byte_level(reader))
    for place, texts in rows:
        first, *pair = (text[:LONGEST_READ] for text in texts)
        read = reader.encode(first, pair[0] if pair else None, add_special_tokens=False)
        marks = reader.num_special_tokens_to_add(bool(pair))
        _count(fit, place, read, marks=marks, lost=sum(number in unknown for number in read.ids))
    return fit


def fit_warnings(fit: TokenizerFit) -> list[str]:
    """What the owner of the texts should know before anything is trained on them, in sentences."""
    found = [told for warning in (_unknown, _split, _long) if (told := warning(fit))]
    if fit.rows == fit.of_rows:
        return found
    return [f"{told} This is from {fit.rows:,} of {fit.of_rows:,} rows, evenly drawn." for told in found]


def _count(fit: TokenizerFit, place: LinePlace, read: Encoding, *, marks: int, lost: int) -> None:
    tokens, words = len(read.ids), _words(read)
    fit.rows += 1
    fit.tokens += tokens
    fit.words += words
    fit.unknown_tokens += lost
    fit.longest = max(fit.longest, tokens + marks)
    fit.lengths[(tokens + marks).bit_length()] += 1
    if lost > tokens * MOST_UNKNOWN or (fit.byte_level and tokens > words * MANY_TOKENS_A_WORD):
        fit.unknown.add(place)
    if lost > tokens * MUCH_UNKNOWN:
        fit.partly_unknown.add(place)
    if tokens + marks > fit.max_tokens:
        fit.long.add(place)


def _unknown(fit: TokenizerFit) -> str:
    if fit.unknown_share <= MUCH_UNKNOWN:
        return ""
    where, asked = (fit.unknown, f" {FOREIGN}") if fit.unknown.rows else (fit.partly_unknown, "")
    share = f"{fit.unknown_share:.1%} of the tokens are unknown to the root's vocabulary"
    return f"{share} ({where.in_words}).{asked}"


def _split(fit: TokenizerFit) -> str:
    if not fit.byte_level or fit.tokens_per_word <= MANY_TOKENS_A_WORD:
        return ""
    takes = f"A word takes {fit.tokens_per_word:.1f} tokens of the root's vocabulary, which hardly knows it"
    return f"{takes} ({fit.unknown.in_words}). {FOREIGN}"


def _long(fit: TokenizerFit) -> str:
    if fit.too_long is TooLong.WINDOWS or fit.long_share <= MUCH_LONG:
        return ""
    then = "they are read in pieces" if fit.too_long is TooLong.PIECES else "what is beyond is cut off"
    return (
        f"{fit.long_share:.1%} of the rows are longer than the {fit.max_tokens:,} tokens the root reads (the"
        f" longest has {fit.longest:,}; {fit.long.in_words}); {then}."
    )


def _words(read: Encoding) -> int:
    """How many words the tokenizer parted the texts into."""
    return len(set(zip(read.sequence_ids, read.word_ids, strict=True)))


def _is_byte_level(reader: Tokenizer) -> bool:
    if reader.pre_tokenizer is None:
        return False
    about = json.loads(reader.pre_tokenizer.__getstate__())
    return any(step["type"] == "ByteLevel" for step in about.get("pretokenizers", [about]))


def open_tokenizer(path: Path) -> Tokenizer:
    """A root's tokenizer, which cuts and fills nothing. Raises as ``tokenizer_fit``."""
    if not path.is_file():
        raise HmiError(ErrorCode.NOT_FOUND, "The root has no tokenizer file.", param="root")
    try:
        reader = Tokenizer.from_file(str(path))
    except Exception as error:
        # The library raises plain Exception for whatever it cannot read.
        raise HmiError(
            ErrorCode.UNSUPPORTED_CHECKPOINT, "The root's tokenizer file cannot be read.", param="root"
        ) from error
    reader.no_truncation()
    reader.no_padding()
    return reader
