"""Dataset rows of four kinds of task, and the answers of a model to them."""

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


def topics_found(number: int) -> list[str]:
    """Every fifth time one label too many."""
    return TOPICS[: 1 + number % 3 + (number % 5 == 0)]


def pain_found(number: int) -> float:
    """More or less."""
    wobble: float = (number * 5 % 7 - 3) / 1.5
    return float(pain(number)["value"]) + wobble


def pair_found(number: int) -> str:
    """Wrong every eighth time."""
    return str(pair(number + (number % 8 == 0))["label"])


def question_found(number: int) -> str:
    """A word too many every third time; where the context does not say, every tenth is answered still."""
    answers = question(number)["answers"]
    if not answers:
        return "tablets" if number % 10 == 0 else ""
    return f"take {answers[0]['text']}" if number % 3 == 0 else str(answers[0]["text"])


TESTED = range(48)
"""The numbers of the rows that the further kinds were measured on."""

KINDS: tuple[tuple[str, str, Callable[[int], dict[str, Any]], Callable[[int], Any]], ...] = (
    ("multilabel", "topics", topics, topics_found),
    ("regression", "pain-score", pain, pain_found),
    ("classification", "same-meaning", pair, pair_found),
    ("question_answering", "leaflet-questions", question, question_found),
)
"""Task, name of the model, rows of its dataset by number, and what it answered to each."""
