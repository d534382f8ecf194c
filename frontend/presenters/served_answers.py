"""What a version answered, by day: how sure it was, how often it escalated, and what its tables covered."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from frontend.presenters.charts import LineChart, Tile, line_chart
from frontend.presenters.formatting import day_text, percent
from tenants.base.plurals import counted
from tenants.usage.models import AnswerDay, LoggedRequest
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
    tiles = [Tile("Texts", f"{total.texts:,}")]
    if total.mean_confidence is not None:
        tiles.append(Tile("Confidence", percent(total.mean_confidence), "average"))
    if total.cascade_texts:
        note = f"of {counted(total.cascade_texts, 'text')}, by the full model"
        tiles.append(Tile("Recomputed", percent(total.escalated_share), note))
    if total.coverage:
        whole, part, unigram = total.coverage
        note = f"{percent(part)} partly known, {percent(unigram)} word by word"
        tiles.append(Tile("Known phrases", percent(whole), note))
    if total.checked_texts:
        note = f"with the full model, in {counted(total.checked_texts, 'check')}"
        tiles.append(Tile("Agreement", percent(total.agreement), note))
    drifts = [f"{day_text(day.day)}: {day.drift}" for day in reversed(days) if day.drift]
    return ServedAnswers(tiles, _chart(days), drifts)


def generated_answers(logged: Iterable[LoggedRequest]) -> ServedAnswers | None:
    """Return the figures of a version that writes, from answered requests of the log; None without any."""
    answered = [(one.generated_tokens, one.latency_ms) for one in logged]
    if not answered:
        return None
    tokens = [count for count, _ in answered]
    timed = [(count, time / 1000) for count, time in answered if time]
    tiles = [
        Tile("Requests", f"{len(answered):,}", "the newest"),
        Tile("Tokens", f"{fmean(tokens):,.0f}", "per answer, average"),
    ]
    if timed:
        seconds = [one for _, one in timed]
        speed = sum(count for count, _ in timed) / sum(seconds)
        tiles.append(Tile("Time", f"{median(seconds):.2g} s", "per answer, median"))
        tiles.append(Tile("Speed", f"{speed:,.0f}", "tokens a second, with the wait"))
    return ServedAnswers(tiles, None, [])


def _chart(days: Sequence[AnswerDay]) -> LineChart | None:
    """A line for each share that every day has; days without answers take no place."""
    if len(days) < 2:
        return None
    given = {
        "Confidence": [day.mean_confidence for day in days],
        "Recomputed": [day.escalated_share for day in days],
        "Known phrases": [day.coverage[0] if day.coverage else None for day in days],
        "Agreement": [day.agreement for day in days],
    }
    series = {
        name: [value for value in values if value is not None]
        for name, values in given.items()
        if None not in values
    }
    at = [day_text(day.day) for day in days]
    return line_chart("Served answers", series, at=at, number_format=".1%") if series else None
