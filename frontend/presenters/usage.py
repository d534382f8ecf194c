"""The usage of a tenant: tiles, charts and rows."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from frontend.forms.usage import WEB_UI, WEB_UI_KEY
from frontend.presenters.charts import Bar, ColumnChart, Tile, daily_columns
from frontend.presenters.formatting import day_text
from tenants.base.plurals import counted
from tenants.usage.selectors import SUMMED, UsageBy

NO_NAME = "(no name)"


@dataclass(frozen=True, slots=True)
class UsageRow:
    """A row of usage. `note` is shown below the name; `alone` is the filter value for this row alone; `sums`
    are those of the selector."""

    name: str
    note: str
    alone: str
    sums: Mapping[str, Any]
    failed_share: float
    token_note: str
    seconds: float


def read_and_generated(tokens: int, generated: int) -> str:
    """Return how many of the tokens were read and generated, or nothing if none was generated."""
    return f"{tokens - generated:,} prompt, {generated:,} generated" if generated else ""


def usage_row(row: Mapping[str, Any], by: UsageBy, keys: Mapping[str, str]) -> UsageRow:
    """Return the row of a model, key or day; `keys` maps prefixes to names."""
    name, note = _named(row["name"], by, keys)
    return UsageRow(
        name=name,
        note=note,
        alone="" if by == UsageBy.DAY else row["name"] or (WEB_UI_KEY if by == UsageBy.KEY else ""),
        sums=row,
        failed_share=row["failed"] / row["requests"] if row["requests"] else 0.0,
        token_note=read_and_generated(row["tokens"], row["generated_tokens"]),
        seconds=row["busy_ms"] / 1000,
    )


def usage_sum(days: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the sum of all days."""
    found = list(days)
    return {name: sum(day[name] for day in found) for name in SUMMED}


def usage_tiles(total: Mapping[str, Any]) -> list[Tile]:
    """Return the tiles of the usage page."""
    requests, failed, refused = total["requests"], total["failed"], total["refused"]
    split = read_and_generated(total["tokens"], total["generated_tokens"])
    return [
        Tile("Requests", f"{requests:,}", f"{failed:,} failed, {refused:,} refused"),
        Tile("Failed", f"{failed / requests:.2%}" if requests else "–", "of the requests"),
        Tile(
            "Texts", f"{total['inputs']:,}", f"{counted(total['tokens'], 'token')}{split and f' ({split})'}"
        ),
        Tile("Machine time", _time(total["busy_ms"]), "of the inference workers"),
    ]


def requests_chart(days: Iterable[Mapping[str, Any]], since: date, until: date) -> ColumnChart:
    """Return the chart of answered, failed and refused requests by day."""
    by_day = {day["name"]: (day["requests"] - day["failed"], day["failed"], day["refused"]) for day in days}
    return daily_columns("Requests", ["Answered", "Failed", "Refused"], by_day, since, until)


def share_bars(busiest: Mapping[str, int], by: UsageBy, keys: Mapping[str, str], total: int) -> list[Bar]:
    """Return bars for the busiest models or keys, and a last row for the sum of the others."""
    top = max(busiest.values(), default=0) or 1
    bars = [Bar(_named(name, by, keys)[0], asked / top, f"{asked:,}") for name, asked in busiest.items()]
    rest = total - sum(busiest.values())
    if rest > 0:
        bars.append(Bar("All others", None, f"{rest:,}"))
    return bars


def _named(name: Any, by: UsageBy, keys: Mapping[str, str]) -> tuple[str, str]:
    if by == UsageBy.DAY:
        return day_text(name), f"{name:%A}"
    if by == UsageBy.MODEL:
        return name or NO_NAME, ""
    if not name:
        return WEB_UI, "requests from the web UI, and requests without a recorded key"
    return keys.get(name, "Deleted key"), f"{name}…"


def _time(milliseconds: float) -> str:
    seconds = milliseconds / 1000
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:,.1f} min" if seconds < 6000 else f"{seconds / 3600:,.1f} h"
