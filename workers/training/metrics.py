"""How good predictions are, with the trivial answers beside them."""

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from seqeval.metrics import classification_report as entity_report
from seqeval.scheme import IOB2
from sklearn.metrics import classification_report

from workers.training.datasets import OUTSIDE

Tagged = tuple[Sequence[str], Sequence[str]]


def classification_scores(
    expected: Sequence[str], predicted: Sequence[str], *, seen: Sequence[str]
) -> dict[str, Any]:
    """Accuracy, macro-F1 over the labels that occur in `expected`, and figures per label.

    `majority_baseline` is the accuracy of always answering the most frequent label of `seen`.
    """
    labels = sorted(set(expected))
    report = classification_report(expected, predicted, labels=labels, output_dict=True, zero_division=0)
    usual = most_frequent(seen)
    return {
        "metric": "accuracy",
        "value": _share_equal(expected, predicted),
        "macro_f1": float(report["macro avg"]["f1-score"]),
        "majority_baseline": _share_equal(expected, [usual] * len(expected)),
        "majority_label": usual,
        "per_label": {label: _figures(report[label]) for label in labels},
    }


def tagging_scores(
    words: Sequence[list[str]],
    expected: Sequence[list[str]],
    predicted: Sequence[list[str]],
    *,
    seen: Iterable[Tagged],
) -> dict[str, Any]:
    """Strict entity-level F1 under IOB2 (seqeval), with figures per entity type.

    `majority_baseline` is the F1 of the most frequent tag for every word (0 when that is "O"),
    `word_baseline` that of each word's most frequent tag in `seen`.
    """
    seen = list(seen)
    usual = most_frequent(tag for _, tags in seen for tag in tags)
    by_word = usual_tags(seen)
    report = _entities(expected, predicted)
    overall = _figures(report["micro avg"])
    pairs = [(a, b) for x, y in zip(expected, predicted, strict=True) for a, b in zip(x, y, strict=True)]
    return {
        "metric": "f1",
        "value": overall["f1"],
        "precision": overall["precision"],
        "recall": overall["recall"],
        "word_accuracy": sum(a == b for a, b in pairs) / len(pairs) if pairs else 0.0,
        "majority_baseline": _f1(expected, [well_formed([usual] * len(tags)) for tags in expected]),
        "word_baseline": _f1(expected, [tag_by_word(text, by_word) for text in words]),
        "per_label": {name: _figures(row) for name, row in report.items() if not name.endswith(" avg")},
    }


def most_frequent(values: Iterable[str]) -> str:
    """The most frequent value, the alphabetically first among equals."""
    return min(Counter(values).items(), key=lambda item: (-item[1], item[0]))[0]


def usual_tags(seen: Iterable[Tagged]) -> dict[str, str]:
    """For each word form, in lower case, the tag it bears most often."""
    tags_of: dict[str, list[str]] = {}
    for words, tags in seen:
        for word, tag in zip(words, tags, strict=True):
            tags_of.setdefault(word.lower(), []).append(tag)
    return {word: most_frequent(tags) for word, tags in tags_of.items()}


def tag_by_word(words: Sequence[str], usual: dict[str, str]) -> list[str]:
    """Tag without a model: each word's usual tag, "O" for a word never seen."""
    return well_formed([usual.get(word.lower(), OUTSIDE) for word in words])


def well_formed(tags: Sequence[str]) -> list[str]:
    """The same tags as IOB2: an I- that continues nothing becomes a B-."""
    result: list[str] = []
    for tag in tags:
        continues = bool(result) and result[-1] != OUTSIDE and result[-1][2:] == tag[2:]
        result.append("B-" + tag[2:] if tag.startswith("I-") and not continues else tag)
    return result


def _share_equal(expected: Sequence[str], predicted: Sequence[str]) -> float:
    return sum(a == b for a, b in zip(expected, predicted, strict=True)) / len(expected)


def _f1(expected: Sequence[list[str]], predicted: Sequence[list[str]]) -> float:
    return _figures(_entities(expected, predicted)["micro avg"])["f1"]


def _entities(expected: Sequence[list[str]], predicted: Sequence[list[str]]) -> dict[str, dict[str, float]]:
    """seqeval's report; where neither side holds an entity, which it refuses, an empty one."""
    if all(tag == OUTSIDE for tags in (*expected, *predicted) for tag in tags):
        return {"micro avg": {"precision": 0.0, "recall": 0.0, "f1-score": 0.0, "support": 0}}
    with warnings.catch_warnings():
        # It warns of types without predictions; their zero is in the report.
        warnings.simplefilter("ignore")
        report: dict[str, dict[str, float]] = entity_report(
            list(expected), list(predicted), output_dict=True, mode="strict", scheme=IOB2, zero_division=0
        )
    return report


def _figures(row: dict[str, float]) -> dict[str, float]:
    figures = {name: float(row[name]) for name in ("precision", "recall")}
    return {**figures, "f1": float(row["f1-score"]), "support": int(row["support"])}
