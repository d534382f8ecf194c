"""Metrics of generated texts, beside those of a trivial baseline."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import regex
import sacrebleu

from workers.training.metrics import most_frequent

UNSPACED: Final = "".join(
    rf"\p{{{script}}}"
    for script in ("Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan")
)
"""Scripts that are written without spaces between words: each letter counts as a word."""
WORD: Final = regex.compile(
    rf"[[\p{{L}}\p{{N}}]&&[{UNSPACED}]]\p{{M}}*"
    rf"|[[\p{{L}}\p{{N}}]--[{UNSPACED}]][[\p{{L}}\p{{M}}\p{{N}}]--[{UNSPACED}]]*[+#]*"
    r"|\p{So}\p{M}*",
    regex.V1,
)
"""Letters and digits with their combining marks, such as the vowel signs of Indic scripts, and with the signs
in which C++ and C# differ; or an emoji."""
INVISIBLE: Final = regex.compile(r"\p{Cf}+")


@dataclass(frozen=True, slots=True)
class TextScore:
    """The ROUGE-L of a text, 0 to 1, and the reference that it is closest to."""

    rouge_l: float
    reference: str


def generation_metrics(
    references: Sequence[Sequence[str]],
    predicted: Sequence[str],
    *,
    train: Sequence[str],
    scores: Sequence[TextScore] | None = None,
) -> dict[str, Any]:
    """ROUGE-L (mean F1 of the longest common subsequence of words, Lin 2004), BLEU of the whole corpus
    (Papineni et al. 2002, as sacreBLEU tokenises) and the share of texts that equal a reference apart from
    white space around them; all from 0 to 1.

    references: one or more for each text; the best counts. train: the completions of the training split.
    `majority_baseline` is the ROUGE-L of always writing the most frequent of them. scores: those of
    `text_scores`, if they are known.
    """
    scores = text_scores(references, predicted) if scores is None else scores
    usual = most_frequent(train)
    return {
        "metric": "rouge_l",
        "value": _mean(scores),
        "bleu": bleu(references, predicted),
        "exact_match": exact_match(references, predicted),
        "majority_baseline": rouge_l(references, [usual] * len(predicted)),
    }


def rouge_l(references: Sequence[Sequence[str]], predicted: Sequence[str]) -> float:
    """The mean over the texts of the F1 with the closest reference."""
    return _mean(text_scores(references, predicted))


def text_scores(references: Sequence[Sequence[str]], predicted: Sequence[str]) -> list[TextScore]:
    """The F1 of each text with its closest reference; of equally close ones with the first."""

    def score(wanted: str, text: str) -> TextScore:
        return TextScore(_overlap(_words(wanted), _words(text)), wanted)

    return [
        max((score(one, text) for one in dict.fromkeys(wanted)), key=lambda found: found.rouge_l)
        for wanted, text in zip(references, predicted, strict=True)
    ]


def _words(text: str) -> list[str]:
    """The words of a text in any script. Texts that differ in Unicode form or in invisible characters alone
    have the same words."""
    visible = INVISIBLE.sub("", unicodedata.normalize("NFC", text).lower())
    return [match[0] for match in WORD.finditer(visible)]


def _overlap(wanted: Sequence[str], found: Sequence[str]) -> float:
    """The F1 of the longest common subsequence; 0 without words."""
    return 2 * _common_length(wanted, found) / max(1, len(wanted) + len(found))


def _common_length(wanted: Sequence[str], found: Sequence[str]) -> int:
    """The length of the longest common subsequence, by bits that stand for the words of `wanted` (Hyyrö
    2004): those at 0 in `row` are matched."""
    places: dict[str, int] = {}
    for at, word in enumerate(wanted):
        places[word] = places.get(word, 0) | 1 << at
    row = every = (1 << len(wanted)) - 1
    for word in found:
        matches = row & places.get(word, 0)
        row = (row + matches | row - matches) & every
    return len(wanted) - row.bit_count()


def _mean(scores: Sequence[TextScore]) -> float:
    return sum(one.rouge_l for one in scores) / len(scores)


def bleu(references: Sequence[Sequence[str]], predicted: Sequence[str]) -> float:
    """BLEU with up to four words, smoothed as sacreBLEU does by default."""
    most = max(map(len, references))
    # A reference that is repeated changes nothing.
    streams = [[wanted[at % len(wanted)] for wanted in references] for at in range(most)]
    return float(sacrebleu.corpus_bleu(list(predicted), streams).score / 100)


def exact_match(references: Sequence[Sequence[str]], predicted: Sequence[str]) -> float:
    """The share of texts that equal one of their references, apart from white space around them."""
    right = [
        text.strip() in {reference.strip() for reference in wanted}
        for wanted, text in zip(references, predicted, strict=True)
    ]
    return sum(right) / len(right)
