"""How well a root's tokenizer fits texts: what its vocabulary does not know, and what its length cuts off."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from tenants.errors import ErrorCode, HmiError
from tenants.formats.census import Named
from tenants.formats.examples import read_examples

TEXTS_READ = 5_000
MUCH_UNKNOWN = 0.05
MOST_UNKNOWN = 0.5
MUCH_TRUNCATED = 0.05
UNKNOWN_TOKENS = ("[UNK]", "<unk>", "<UNK>", "unk")


@dataclass(slots=True)
class Fit:
    """What a tokenizer made of a sample of texts. Shares are in 0..1: of tokens, and of rows."""

    rows: int = 0
    tokens: int = 0
    unknown_tokens: int = 0
    longest: int = 0
    max_tokens: int = 0
    unknown: Named = field(default_factory=Named)
    """The rows of which more than half is unknown."""
    truncated: Named = field(default_factory=Named)

    @property
    def unknown_share(self) -> float:
        """The share of tokens that the vocabulary does not know."""
        return self.unknown_tokens / self.tokens if self.tokens else 0.0

    @property
    def truncated_share(self) -> float:
        """The share of rows that are longer than the root reads."""
        return self.truncated.rows / self.rows if self.rows else 0.0

    def to_json(self) -> dict[str, Any]:
        """For a report."""
        return asdict(self) | {
            "unknown_share": round(self.unknown_share, 6),
            "truncated_share": round(self.truncated_share, 6),
            "warnings": fit_warnings(self),
        }


def tokenizer_fit(
    rows: Iterable[tuple[str, ...]], *, tokenizer: Path, max_tokens: int, most_rows: int = TEXTS_READ
) -> Fit:
    """Tokenise the first rows (each of one text or two) with a ``tokenizer.json``.

    ``max_tokens`` is the longest input of the root with its marks. Raises ``not_found`` or
    ``unsupported_checkpoint`` when the file cannot be read.
    """
    reader = _open(tokenizer)
    unknown = {number for name in UNKNOWN_TOKENS if (number := reader.token_to_id(name)) is not None}
    fit = Fit(max_tokens=max_tokens)
    for text, *pair in islice(rows, most_rows):
        ids = reader.encode(text, pair[0] if pair else None).ids
        lost = sum(number in unknown for number in ids)
        fit.rows += 1
        fit.tokens += len(ids)
        fit.unknown_tokens += lost
        fit.longest = max(fit.longest, len(ids))
        if ids and lost > len(ids) * MOST_UNKNOWN:
            fit.unknown.add(fit.rows)
        if len(ids) > max_tokens:
            fit.truncated.add(fit.rows)
    return fit


def fit_warnings(fit: Fit) -> list[str]:
    """What the owner of the texts should know before anything is trained on them, in sentences."""
    warnings = []
    if fit.unknown_share > MUCH_UNKNOWN:
        what = "Is this text in a language the root was not trained on?" if fit.unknown.rows else ""
        warnings.append(
            f"{fit.unknown_share:.1%} of the tokens are unknown to the root's vocabulary. {what}".strip()
        )
    if fit.truncated_share > MUCH_TRUNCATED:
        warnings.append(
            f"{fit.truncated_share:.1%} of the rows are longer than the {fit.max_tokens:,} tokens the root"
            f" reads (the longest has {fit.longest:,}); what is beyond is cut off."
        )
    return warnings


def corpus_rows(path: Path) -> Iterator[tuple[str, ...]]:
    """The texts of a canonical corpus."""
    with path.open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            yield (line.rstrip("\n"),)


def dataset_rows(path: Path) -> Iterator[tuple[str, ...]]:
    """What a model reads of each row of a canonical split."""
    for example in read_examples(path):
        yield example.texts


def _open(path: Path) -> Tokenizer:
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
