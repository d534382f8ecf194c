"""The figures and first steps on the home page of a tenant."""

from collections.abc import Mapping
from dataclasses import dataclass

from frontend.presenters.charts import Tile
from tenants.base.plurals import counted
from tenants.usage.models import RequestStatus
from tenants.usage.selectors import UsageTotal


@dataclass(frozen=True, slots=True)
class OnboardingStep:
    """One of the first steps; `page` is the URL name of the page where it is done."""

    name: str
    help: str
    page: str
    done: bool


def onboarding_steps(
    *, roots: bool, data: bool, models: bool, ready: bool, keys: bool, requests: bool
) -> list[OnboardingStep]:
    """Return the first steps of a new tenant; an empty list if all are done."""
    root = ("Wait for a root", "An administrator registers one; all models share it.", "tree")
    steps = [
        *([] if roots else [OnboardingStep(*root, done=False)]),
        OnboardingStep(
            "Upload a dataset", "Texts with labels, prompts with completions, or chats.", "dataset_new", data
        ),
        OnboardingStep("Create a model", "Choose a dataset and a base model.", "model_new", models),
        OnboardingStep("Wait for training", "It takes a few minutes. You can close the page.", "jobs", ready),
        OnboardingStep("Create an API key", "It is shown once.", "keys", keys),
        OnboardingStep("Send a request", "In the playground, or from a program.", "playground", requests),
    ]
    return [] if all(step.done for step in steps) else steps


def home_tiles(
    usage: UsageTotal,
    *,
    log_urls: Mapping[RequestStatus, str],
    models: int,
    ready: int,
    max_models: int,
    jobs: int,
    max_jobs: int,
) -> list[Tile]:
    """Return the figures at the top of the page. `log_urls` list the requests that ended so."""
    without_answer = {RequestStatus.FAILED: usage.failed, RequestStatus.REFUSED: usage.refused}
    links = tuple(
        (f"{count:,} {status}", log_urls[status] if count else "") for status, count in without_answer.items()
    )
    return [
        Tile("Models ready", f"{ready:,}", f"{models:,} of {max_models:,} created"),
        Tile("Running jobs", f"{jobs:,}", f"of at most {max_jobs:,}"),
        Tile("Requests this month", f"{usage.requests:,}", links=links),
        Tile("Texts this month", f"{usage.inputs:,}", counted(usage.tokens, "token")),
    ]
