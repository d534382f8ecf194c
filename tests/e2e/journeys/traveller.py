"""A person in a browser who goes by clicks and fields alone; what a journey takes is counted."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from playwright.sync_api import FilePayload, Locator, Page

RECORD = "HMI_JOURNEYS"
"""The file that gets a line for each journey, where somebody wants them."""
PICK = """(field, value) => {
    field.value = value;
    field.dispatchEvent(new InputEvent("input", { bubbles: true, inputType: "insertReplacementText" }));
}"""


@dataclass
class Effort:
    """What a journey takes: clicks, fields that are filled in or chosen from a list, and the seconds between
    the first and the last, without those that others work."""

    journey: str
    clicks: int = 0
    fields: int = 0
    seconds: float = 0.0


class Traveller:
    """Goes by clicks and fields alone, and by no address."""

    def __init__(self, page: Page, journey: str) -> None:
        self.page = page
        self.effort = Effort(journey)
        self._since = time.perf_counter()

    def click(self, control: Locator) -> None:
        """Click what is seen."""
        control.click()
        self.effort.clicks += 1

    def choose_file(self, field: Locator, file: FilePayload) -> None:
        """Open the chooser of a field by a click, and choose a file there."""
        field.set_input_files(file)
        self.effort.clicks += 1

    def fill(self, field: Locator, text: str) -> None:
        """Type into a field."""
        field.fill(text)
        self.effort.fields += 1

    def pick(self, field: Locator, suggestion: str) -> None:
        """Choose one of the suggestions below a field, which no browser shows to a script."""
        field.evaluate(PICK, suggestion)
        self.effort.fields += 1

    @contextmanager
    def resting(self) -> Iterator[None]:
        """The seconds of this block do not count."""
        begun = time.perf_counter()
        yield
        self._since += time.perf_counter() - begun

    def arrived(self) -> Effort:
        """End the journey, and note it."""
        self.effort.seconds = round(time.perf_counter() - self._since, 1)
        if record := os.environ.get(RECORD):
            with Path(record).open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(asdict(self.effort)) + "\n")
        return self.effort


def took(effort: Effort) -> tuple[int, int]:
    return effort.clicks, effort.fields
