"""The demo's generative model, as the report shows it and as the traffic calls it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo.datasets import DemoTask
from demo.generative import WRITING_TASKS
from demo.generative_traffic import GenerativeTraffic
from demo.models import ready_version, split_of
from demo.people import logins_read
from tenants.datasets.storage import stored_path


@dataclass(frozen=True, slots=True)
class GenerativeModel:
    """One generative model of the demo: its row in the report, and what to send it."""

    row: dict[str, Any]
    traffic: GenerativeTraffic


def generative_models() -> list[GenerativeModel]:
    """The generative models of the demo, with their test prompts as traffic."""
    logins = logins_read()
    return [_model(task, logins[task.tenant].api_key) for task in WRITING_TASKS]


def _model(task: DemoTask, api_key: str) -> GenerativeModel:
    evaluated = ready_version(task).metrics["evaluate"]
    row = {
        "Model": f"{task.tenant}/{task.hplm}",
        "train": split_of(task, "train").rows,
        "answers": evaluated["answers"],
        "right": round(evaluated["exact_match"] * evaluated["answers"]),
        "what it does": task.about,
    }
    prompts = _prompts(stored_path(split_of(task, "test").sha256))
    return GenerativeModel(row, GenerativeTraffic(row["Model"], api_key, prompts))


def _prompts(path: Path) -> list[str]:
    """The messages that the conversations of a dataset's split begin with."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line)["messages"][0]["content"] for line in lines]
