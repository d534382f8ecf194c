"""What a version answered, by day: how sure it was, how often it escalated, and what its tables covered."""

from collections.abc import Sequence
from dataclasses import dataclass

from frontend.presenters.charts import LineChart, Tile, line_chart
from frontend.presenters.formatting import day_text, percent
from tenants.usage.models import AnswerDay
from tenants.usage.services.answer_counts import COUNTED


@dataclass(frozen=True, slots=True)
class ServedAnswers:
    """The figures of several days together, a chart by day where there are two days or more, and the days
    that left their band, newest first."""

    tiles: list[Tile]
    chart: LineChart | None
    drifts: list[str]


def served_answers(days: Sequence[AnswerDay]) -> ServedAnswers | None:
    """Return the figures of a version from its days, oldest first; None if it answered nothing."""
    if not days:
        return None
    total = AnswerDay(**{name: sum(getattr(day, name) for day in days) for name in COUNTED})
    whole, part, unigram = total.coverage or (None, None, None)
    tiles = [
        Tile("Texts", f"{total.texts:,}"),
        Tile("Confidence", percent(total.mean_confidence), "mean calibrated probability"),
        Tile("Escalated", percent(total.escalated_share), f"of {total.cascade_texts:,} by the cascade"),
        Tile("Whole fragments", percent(whole), f"{percent(part)} shorter parts, {percent(unigram)} tokens"),
        Tile("Agreement", percent(total.agreement), f"of {total.checked_texts:,} checked in full"),
    ]
    drifts = [f"{day_text(day.day)}: {day.drift}" for day in reversed(days) if day.drift]
    return ServedAnswers(tiles, _chart(days), drifts)


def _chart(days: Sequence[AnswerDay]) -> LineChart | None:
    """A line for each share that every day has; days without answers take no place."""
    if len(days) < 2:
        return None
    given = {
        "Confidence": [day.mean_confidence for day in days],
        "Escalated": [day.escalated_share for day in days],
        "Whole fragments": [day.coverage[0] if day.coverage else None for day in days],
        "Agreement": [day.agreement for day in days],
    }
    series = {
        name: [value for value in values if value is not None]
        for name, values in given.items()
        if None not in values
    }
    at = [day_text(day.day) for day in days]
    return line_chart("Served answers", series, at=at, number_format=".1%") if series else None
