"""The stock client sends a file, follows a fine-tuning to its end and asks for what is there. Prints what it
saw as JSON. Arguments: the address of the product, a key, a key that may only infer, a file with rows."""

import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import openai

SMALL = {"epochs": 1, "max_epochs": 1, "min_steps": 0, "adapter": 4}
DONE = {"succeeded", "failed", "cancelled"}
url, key, narrow, rows = sys.argv[1:]
sent: Counter[str] = Counter()


def count(request: Any) -> None:
    sent[f"{request.method} {request.url.path}"] += 1


http = openai.DefaultHttpxClient(event_hooks={"request": [count]})
client = openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=2, http_client=http)
strange: list[str] = []


def known(answer: Any) -> Any:
    """The answer, held against the client's own type: it takes what comes without a look, words among it."""
    try:
        type(answer).model_validate(answer.to_dict())
    except ValueError as error:
        strange.append(f"{type(answer).__name__}: {error}")
    return answer


seen: dict[str, Any] = {"before": [known(model).id for model in client.models.list()]}

with Path(rows).open("rb") as stream:
    file = known(client.files.create(file=stream, purpose="fine-tune"))
seen["file"] = [file.id, file.bytes, file.status, file.purpose]
seen["listed"] = [each.id for each in client.files.list(purpose="fine-tune")]
seen["same"] = client.files.content(file.id).read() == Path(rows).read_bytes()

job = client.fine_tuning.jobs.create(
    model="tiny",
    training_file=file.id,
    suffix="mood",
    method={"type": "supervised", "supervised": {"hyperparameters": {"batch_size": 8}}},
    metadata={"team": "a"},
    extra_body={"hmi": {"settings": SMALL}},
)
statuses = [job.status]
until = time.monotonic() + 120
while job.status not in DONE and time.monotonic() < until:
    time.sleep(0.1)
    job = known(client.fine_tuning.jobs.retrieve(job.id))
    statuses.append(job.status)
seen["statuses"] = list(dict.fromkeys(statuses))
seen["job"] = [job.fine_tuned_model, job.error and job.error.message, job.finished_at is not None]
events = list(client.fine_tuning.jobs.list_events(job.id, limit=3))
seen["events"] = [[known(event).level, event.type, event.message] for event in events]
checkpoints = client.fine_tuning.jobs.checkpoints.list(job.id)
seen["checkpoints"] = [known(each).fine_tuned_model_checkpoint for each in checkpoints]
seen["results"] = [client.files.content(each).text.splitlines()[0] for each in job.result_files]
for results in job.result_files:
    known(client.files.retrieve(results))
seen["jobs"] = [each.id == job.id for each in client.fine_tuning.jobs.list(limit=1)]
seen["after"] = [model.id for model in client.models.list()]
seen["model"] = client.models.retrieve(job.fine_tuned_model or "").id


def raised(act: Any) -> list[Any]:
    before = sent.total()
    try:
        act()
    except openai.APIStatusError as error:
        return [type(error).__name__, error.status_code, error.code, error.param, sent.total() - before]
    return ["nothing"]


def again(**changes: Any) -> Any:
    return client.fine_tuning.jobs.create(**{"model": "tiny", "training_file": file.id, **changes})


seen["errors"] = {
    "nobody": raised(lambda: client.with_options(api_key="wrong").models.list()),
    "scope": raised(lambda: client.with_options(api_key=narrow).files.list()),
    "model": raised(lambda: client.models.retrieve("gpt-4")),
    "file": raised(lambda: client.files.retrieve("file-1")),
    "base": raised(lambda: again(model="gpt-4")),
    "taken": raised(lambda: again(suffix="mood")),
    "ended": raised(lambda: client.fine_tuning.jobs.cancel(job.id)),
    "epochs": raised(lambda: again(hyperparameters={"n_epochs": 0})),
    "tokens": raised(lambda: client.embeddings.create(model="mood", input=[1, 2])),
    "purpose": raised(lambda: client.files.create(file=b"x", purpose="vision")),
}
patient = client.with_options(max_retries=60)  # the worker may still be starting
vectors = known(patient.embeddings.create(model=seen["job"][0], input=["a good stone", "a bad river"]))
(shorter,) = client.embeddings.create(model="mood", input="good", dimensions=3, encoding_format="float").data
seen["embeddings"] = [vectors.model, [len(one.embedding) for one in vectors.data], len(shorter.embedding)]
lines = known(client.files.create(file=Path(rows), purpose="batch"))
seen["batch"] = raised(  # rows to learn from are no requests
    lambda: client.batches.create(input_file_id=lines.id, endpoint="/v1/embeddings", completion_window="24h")
)
gone = [known(client.files.delete(file.id)), known(client.models.delete("acme/mood"))]
seen["deleted"] = [answer.deleted for answer in gone]
seen["strange"] = strange
sys.stdout.write(json.dumps(seen))
