"""The way of a new tenant to its first answer."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do, on the page of this name."""

    name: str
    help: str
    page: str
    done: bool


def onboarding(*, data: bool, hplms: bool, ready: bool, keys: bool, asked: bool) -> list[Step]:
    """What is to be done and what of it is; nothing once all is."""
    steps = [
        Step("Upload a dataset", "Texts with labels, as JSON lines, CSV, TSV or CoNLL.", "dataset_new", data),
        Step("Create a model", "Choose the dataset and what it grows from.", "model_new", hplms),
        Step("Let it learn", "A few minutes; you can watch, or close the page.", "jobs", ready),
        Step("Make an API key", "It is shown once.", "keys", keys),
        Step("Ask it", "By hand, or from a program.", "try", asked),
    ]
    return [] if all(step.done for step in steps) else steps
