"""Figures at the head of a page."""

from dataclasses import dataclass

from tenants.usage.selectors.usage import UsageTotal


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure at the head of a page, with a remark below it."""

    name: str
    figure: str
    note: str = ""


def usage_tiles(
    usage: UsageTotal, *, hplms: int, ready: int, max_models: int, jobs: int, max_jobs: int
) -> list[Tile]:
    """The tiles of the home page."""
    return [
        Tile("Models ready", f"{ready:,}", f"{hplms:,} of {max_models:,} made"),
        Tile("Jobs at work", f"{jobs:,}", f"at most {max_jobs:,} at once"),
        Tile("Requests this month", f"{usage.requests:,}", f"{usage.failed:,} failed"),
        Tile("Texts this month", f"{usage.inputs:,}", f"{usage.tokens:,} tokens"),
    ]
