"""Metrics of predictions, beside those of trivial baselines."""

import string
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import confusion_matrix, f1_score, precision_recall_fscore_support
from sklearn.preprocessing import MultiLabelBinarizer

from inference.text.predictions import iob2_spans
from workers.training.datasets import OUTSIDE

Tagged = tuple[Sequence[str], Sequence[str]]
Value = TypeVar("Value", str, tuple[str, ...])


def classification_metrics(
    expected: Sequence[str], predicted: Sequence[str], *, train: Sequence[str]
) -> dict[str, Any]:
    """Accuracy, macro-F1 over the labels in `expected`, precision, recall and F1 per label, and the confusion
    matrix of all labels that were expected or predicted.

    `majority_baseline` is the accuracy of always predicting the most frequent label of `train`.
    """
    labels = sorted(set(expected))
    per_label = _per_label(labels, expected, predicted)
    usual = most_frequent(train)
    return {
        "metric": "accuracy",
        "value": _share_equal(expected, predicted),
        "macro_f1": _mean_f1(per_label),
        "majority_baseline": _share_equal(expected, [usual] * len(expected)),
        "majority_label": usual,
        "per_label": per_label,
        "confusion": _confusion(expected, predicted),
    }


def _per_label(
    labels: Sequence[str], expected: Any, predicted: Any, *, numbered: bool = False
) -> dict[str, dict[str, float]]:
    """Metrics per label; numbered: the columns of `expected` and `predicted` are the labels."""
    names = range(len(labels)) if numbered else labels
    found = precision_recall_fscore_support(expected, predicted, labels=list(names), zero_division=0)
    return {
        label: {"precision": float(p), "recall": float(r), "f1": float(f), "support": int(n)}
        for label, p, r, f, n in zip(labels, *found, strict=True)
    }


def _mean_f1(per_label: dict[str, dict[str, float]]) -> float:
    return sum(figures["f1"] for figures in per_label.values()) / max(1, len(per_label))


def _confusion(expected: Sequence[str], predicted: Sequence[str]) -> dict[str, Any]:
    labels = sorted({*expected, *predicted})
    return {"labels": labels, "rows": confusion_matrix(expected, predicted, labels=labels).tolist()}


def multilabel_metrics(
    expected: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], *, train: Sequence[Sequence[str]]
) -> dict[str, Any]:
    """Micro-F1, macro-F1 over the labels in `expected`, the share of texts whose labels are all right, and
    precision, recall and F1 per label.

    `majority_baseline` is the micro-F1 of always predicting the most frequent set of labels of `train`.
    """
    labels = sorted({label for row in (*expected, *predicted) for label in row})
    occurring = {label for row in expected for label in row}
    binary = MultiLabelBinarizer(classes=labels)
    wanted, found = binary.fit_transform(expected), binary.transform(predicted)
    usual = most_frequent(tuple(sorted(row)) for row in train)
    trivial = binary.transform([[label for label in usual if label in labels]] * len(expected))
    every = _per_label(labels, wanted, found, numbered=True)
    per_label = {label: figures for label, figures in every.items() if label in occurring}
    return {
        "metric": "micro_f1",
        "value": float(f1_score(wanted, found, average="micro", zero_division=0)),
        "macro_f1": _mean_f1(per_label),
        "exact": float((wanted == found).all(axis=1).mean()),
        "majority_baseline": float(f1_score(wanted, trivial, average="micro", zero_division=0)),
        "per_label": per_label,
    }


def regression_metrics(
    expected: Sequence[float], predicted: Sequence[float], *, train: Sequence[float]
) -> dict[str, Any]:
    """Pearson's and Spearman's correlation (0 where one side is constant), mean absolute error, and that of
    always predicting the mean of `train`."""
    wanted, found = np.asarray(expected), np.asarray(predicted)
    varied = len(wanted) > 1 and bool(wanted.std() > 0) and bool(found.std() > 0)
    return {
        "metric": "pearson",
        "value": float(pearsonr(wanted, found).statistic) if varied else 0.0,
        "spearman": float(spearmanr(wanted, found).statistic) if varied else 0.0,
        "mean_absolute_error": float(np.abs(wanted - found).mean()),
        "mean_answer_error": float(np.abs(wanted - float(np.mean(train))).mean()),
        "majority_baseline": 0.0,
    }


def answer_metrics(expected: Sequence[Sequence[str]], predicted: Sequence[str]) -> dict[str, Any]:
    """SQuAD's exact match and F1 of words: case, punctuation and articles are ignored, the best of several
    expected answers counts, and "" is expected where there is none.

    `majority_baseline` is the F1 of never answering.
    """
    pairs = list(zip(expected, predicted, strict=True))
    exact = [is_answer(rights, answer) for rights, answer in pairs]
    f1 = [answer_f1(rights, answer) for rights, answer in pairs]
    return {
        "metric": "f1",
        "value": float(np.mean(f1)),
        "exact_match": float(np.mean(exact)),
        "majority_baseline": float(np.mean([not rights for rights in expected])),
        "answered": float(np.mean([bool(answer) for answer in predicted])),
    }


def answer_f1(rights: Sequence[str], answer: str) -> float:
    """SQuAD's F1 of an answer's words with the best of the right ones; "" is right where there is none."""
    return max(_overlap(right, answer) for right in rights or [""])


def is_answer(rights: Sequence[str], answer: str) -> bool:
    """Whether `answer` is one of the right answers; "" where there is none."""
    return any(_words(right) == _words(answer) for right in rights or [""])


def _words(text: str) -> list[str]:
    plain = "".join(sign for sign in text.lower() if sign not in string.punctuation)
    return [word for word in plain.split() if word not in ("a", "an", "the")]


def _overlap(right: str, answer: str) -> float:
    wanted, found = _words(right), _words(answer)
    if not wanted or not found:
        return float(wanted == found)
    common = (Counter(wanted) & Counter(found)).total()
    return 2 * common / (len(wanted) + len(found))


def tagging_metrics(
    words: Sequence[list[str]],
    expected: Sequence[list[str]],
    predicted: Sequence[list[str]],
    *,
    train: Iterable[Tagged],
) -> dict[str, Any]:
    """Strict entity-level F1 under IOB2, micro-averaged (as seqeval computes it), also per entity type.

    `majority_baseline` is the F1 of the most frequent tag for every word (0 when that is "O"),
    `word_baseline` that of each word's most frequent tag in `train`.
    """
    train = list(train)
    usual = most_frequent(tag for _, tags in train for tag in tags)
    by_word = most_frequent_tags(train)
    overall, per_label = _entities(expected, predicted)
    pairs = [(a, b) for x, y in zip(expected, predicted, strict=True) for a, b in zip(x, y, strict=True)]
    return {
        "metric": "f1",
        "value": overall["f1"],
        "precision": overall["precision"],
        "recall": overall["recall"],
        "word_accuracy": sum(a == b for a, b in pairs) / len(pairs) if pairs else 0.0,
        "majority_baseline": _f1(expected, [well_formed([usual] * len(tags)) for tags in expected]),
        "word_baseline": _f1(expected, [tag_by_word(text, by_word) for text in words]),
        "per_label": per_label,
    }


def f1_statistics(expected: Collection[object], predicted: Collection[object]) -> tuple[float, float]:
    """What one row's sets add to both sides of the micro-F1's fraction."""
    both = len(set(expected) & set(predicted))
    return 2.0 * both, float(len(expected) + len(predicted))


def most_frequent(values: Iterable[Value]) -> Value:
    """The most frequent value; the alphabetically first of ties."""
    return min(Counter(values).items(), key=lambda item: (-item[1], item[0]))[0]


def most_frequent_tags(train: Iterable[Tagged]) -> dict[str, str]:
    """The most frequent tag of each lower-cased word."""
    tags_of: dict[str, list[str]] = {}
    for words, tags in train:
        for word, tag in zip(words, tags, strict=True):
            tags_of.setdefault(word.lower(), []).append(tag)
    return {word: most_frequent(tags) for word, tags in tags_of.items()}


def tag_by_word(words: Sequence[str], usual: dict[str, str]) -> list[str]:
    """Tags of the word baseline: each word's most frequent tag, "O" for an unknown word."""
    return well_formed([usual.get(word.lower(), OUTSIDE) for word in words])


def well_formed(tags: Sequence[str]) -> list[str]:
    """The tags as valid IOB2: an I- that continues no entity becomes a B-."""
    result: list[str] = []
    for tag in tags:
        continues = bool(result) and result[-1] != OUTSIDE and result[-1][2:] == tag[2:]
        result.append("B-" + tag[2:] if tag.startswith("I-") and not continues else tag)
    return result


def _share_equal(expected: Sequence[str], predicted: Sequence[str]) -> float:
    return sum(a == b for a, b in zip(expected, predicted, strict=True)) / len(expected)


def _f1(expected: Sequence[list[str]], predicted: Sequence[list[str]]) -> float:
    return _entities(expected, predicted)[0]["f1"]


def _entities(
    expected: Sequence[list[str]], predicted: Sequence[list[str]]
) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """The figures of all entities together and of each type. An entity is found if its type and both of its
    ends are right."""
    right, found, wanted = Counter[str](), Counter[str](), Counter[str]()
    for tags, others in zip(expected, predicted, strict=True):
        spans, answers = set(iob2_spans(tags)), set(iob2_spans(others))
        wanted.update(label for label, _, _ in spans)
        found.update(label for label, _, _ in answers)
        right.update(label for label, _, _ in spans & answers)
    per_label = {
        label: _figures(right[label], found[label], wanted[label]) for label in sorted({*found, *wanted})
    }
    return _figures(right.total(), found.total(), wanted.total()), per_label


def _figures(right: int, found: int, wanted: int) -> dict[str, float]:
    return {
        "precision": right / max(1, found),
        "recall": right / max(1, wanted),
        "f1": 2 * right / max(1, found + wanted),
        "support": wanted,
    }
