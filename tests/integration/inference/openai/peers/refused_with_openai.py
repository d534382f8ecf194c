"""The stock client is told to wait, finds nobody who answers, and cancels a fine-tuning that is at work.
Prints what it saw as JSON. Arguments: the address of the product, a key, a key for one request a minute, a
file with rows."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import openai

LONG = {"epochs": 100, "max_epochs": 1000, "patience": 100, "min_steps": 10**6, "batch_size": 1, "adapter": 4}
DONE = {"succeeded", "failed", "cancelled"}
url, key, slow, rows = sys.argv[1:]
client = openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)
hurried = client.with_options(api_key=slow)


def raised(act: Any) -> list[Any]:
    try:
        act()
    except openai.APIStatusError as error:
        waits = int(error.response.headers["retry-after"]) > 0
        return [type(error).__name__, error.status_code, error.code, waits]
    return ["nothing"]


def until(*statuses: str) -> str:
    """What the fine-tuning is, once it is one of these."""
    late = time.monotonic() + 120
    while True:
        status: str = client.fine_tuning.jobs.retrieve(job.id).status
        if status in statuses or time.monotonic() > late:
            return status
        time.sleep(0.1)


seen: dict[str, Any] = {
    "first": [model.id for model in hurried.models.list()],
    "second": raised(hurried.models.list),
    "nobody": raised(lambda: client.embeddings.create(model="mood", input="a good stone")),
}
with Path(rows).open("rb") as stream:
    file = client.files.create(file=stream, purpose="fine-tune")
job = client.fine_tuning.jobs.create(
    model="tiny", training_file=file.id, suffix="other", extra_body={"hmi": {"settings": LONG}}
)
seen["before"] = until("running", *DONE)
cancelled = client.fine_tuning.jobs.cancel(job.id)
seen["cancel"] = [cancelled.id == job.id, until(*DONE)]
seen["events"] = [event.message for event in client.fine_tuning.jobs.list_events(job.id)]
sys.stdout.write(json.dumps(seen))
