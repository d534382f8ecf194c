"""Rows and measures of the further kinds of task."""

from collections.abc import Callable
from typing import Any

TOPICS = ["dosage", "storage", "interactions"]


def topics(number: int) -> dict[str, Any]:
    """A text with one or two labels."""
    return {"text": f"leaflet {number} on {number % 7}", "labels": TOPICS[: 1 + number % 3]}


def pain(number: int) -> dict[str, Any]:
    """A text with a number."""
    return {"text": f"my head hurts a little, day {number}", "value": (number * 7 % 50) / 5}


def pair(number: int) -> dict[str, Any]:
    """Two texts and whether they mean the same."""
    return {
        "text": f"take {number} tablets a day",
        "text_pair": f"the daily dose is {number + number % 2} tablets",
        "label": ("same", "other")[number % 2],
    }


def question(number: int) -> dict[str, Any]:
    """A question, a context, and where the answer stands in it; every fifth has none."""
    context = f"Leaflet {number}: take {number + 2} tablets in the morning, with a glass of water."
    text = f"{number + 2} tablets"
    answers = [{"text": text, "start": context.index(text)}] if number % 5 else []
    return {
        "question": f"How many tablets does leaflet {number} say?",
        "context": context,
        "answers": answers,
    }


_HITS = {"plot_hits": {"trigram": 700, "left_bigram": 160, "unigram": 90}, "truncated_share": 0.0, "rows": 6}
KINDS: tuple[tuple[str, str, Callable[[int], dict[str, Any]], dict[str, Any]], ...] = (
    (
        "multilabel",
        "topics",
        topics,
        {"metric": "micro_f1", "value": 0.842, "subset_accuracy": 0.71, **_HITS},
    ),
    (
        "regression",
        "pain-score",
        pain,
        {"metric": "pearson", "value": 0.783, "spearman": 0.771, "rmse": 1.42, **_HITS},
    ),
    ("classification", "same-meaning", pair, {"metric": "accuracy", "value": 0.881, **_HITS}),
    (
        "question_answering",
        "leaflet-questions",
        question,
        {"metric": "f1", "value": 0.764, "exact_match": 0.69, **_HITS},
    ),
)
