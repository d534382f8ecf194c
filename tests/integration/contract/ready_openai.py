"""Things under `/v1` in the state that a request needs to succeed."""

import io

from tenants.accounts.models import ApiKey, User
from tenants.datasets.models import FilePurpose
from tenants.datasets.services.files import file_create
from tests.background import run_background_of
from tests.e2e.tiny_files import TinyFiles
from tests.e2e.world import World, tickets_file, versions_finish
from tests.integration.contract.known import Special
from versiontree.tree.models import FineTuning
from versiontree.tree.services.fine_tunings import fine_tuning_create

LINES = (
    b'{"custom_id": "a", "method": "POST", "url": "/v1/embeddings", '
    b'"body": {"model": "acme/triage", "input": "stone"}}'
)
WRITER = {"model": "acme/writer", "max_tokens": 4}
"""The generative model of the tenant."""


def for_openai(world: World, files: TinyFiles, actor: User | ApiKey) -> Special:
    """What good requests name of what is made here."""
    rows, lines = (
        file_create(
            tenant=world.tenant, purpose=purpose, filename="in.jsonl", stream=io.BytesIO(content), actor=actor
        )
        for purpose, content in (
            (FilePurpose.FINE_TUNE, tickets_file().read()),
            (FilePurpose.BATCH, LINES),
        )
    )
    tuned = fine_tuning_create(
        tenant=world.tenant, model=str(world.root.root), training_file=rows.pk, actor=actor
    )
    run_background_of(tuned.pk)
    made = FineTuning.unscoped.get(pk=tuned.pk).version
    assert made is not None
    versions_finish(made, files=files)
    results = {"fine_tuning_key": tuned.pk.hex}
    return {
        "POST /v1/files": {"purpose": "batch", "file": LINES},
        "POST /v1/batches": {
            "input_file_id": f"file-{lines.pk.hex}",
            "endpoint": "/v1/embeddings",
            "completion_window": "24h",
        },
        "POST /v1/chat/completions": {**WRITER, "messages": [{"role": "user", "content": "Hello"}]},
        "POST /v1/completions": {**WRITER, "prompt": "Hello"},
        "POST /v1/fine_tuning/jobs": {
            "training_file": f"file-{rows.pk.hex}",
            "model": str(world.root.root),
        },
        "GET /v1/files/file-results-{fine_tuning_key}": results,
        "DELETE /v1/files/file-results-{fine_tuning_key}": results,
        "GET /v1/files/file-results-{fine_tuning_key}/content": results,
    }
