"""The demo's generative models, as the report shows them and as the traffic calls them."""

import json
import math
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
    version = ready_version(task)
    tuned, evaluated = version.metrics["fine_tune"], version.metrics["evaluate"]
    row = {
        "Model": f"{task.tenant}/{task.hplm}",
        "task": task.task,
        "parent": str(version.parent),
        "train": split_of(task, "train").rows,
        "dev loss": tuned["dev"]["loss"],
        "test loss of root": math.log(tuned["test"]["root_perplexity"]),
        "test loss": tuned["test"]["loss"],
        "ROUGE-L": 100 * evaluated["value"],
        "BLEU": 100 * evaluated["bleu"],
        "PET KB": round(version.artifact_links.get(role="hplm").artifact.size / 1000),
    }
    prompts = _prompts(stored_path(split_of(task, "test").sha256))
    return GenerativeModel(row, GenerativeTraffic(row["Model"], task.task, api_key, prompts))


def _prompts(path: Path) -> list[str]:
    """The prompts of a dataset's split, or the questions of its conversations."""
    with path.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [row["prompt"] if "prompt" in row else row["messages"][0]["content"] for row in rows]
