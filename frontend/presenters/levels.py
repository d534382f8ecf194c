"""By what a fragment was answered: the names and the order that every page has, with a hue for each."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from frontend.presenters.charts import Part, parts

LEVELS: Final = {
    "trigram": "Whole fragment",
    "bigram": "Shorter part",
    "unigram": "One token",
    "computed": "Computed",
}
"""By the API's names, the most telling first."""


def level_parts(amounts: Mapping[str, float], whole: float, form: str = "{:.0%}") -> list[Part]:
    """Parts of a whole by the levels that `amounts` has, each with its share written as `form` has it."""
    told = [level for level in LEVELS if level in amounts]
    drawn = parts(
        (LEVELS[level], amounts[level], form.format(amounts[level] / (whole or 1))) for level in told
    )
    return [replace(part, hue=level) for part, level in zip(drawn, told, strict=True)]
