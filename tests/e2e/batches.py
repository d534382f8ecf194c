"""Batches as after a month of use: one that runs, one that is done, one that failed."""

import io
from datetime import timedelta

from django.utils import timezone

from inference.batches.models import Batch, BatchState
from inference.batches.services.batches import batch_submit
from inference.batches.services.lifecycle import batch_attach_file
from tenants.datasets.models import FilePurpose
from tenants.datasets.services.files import file_create
from tests.e2e.world import World
from tests.unit.tenants.files import jsonl

MESSAGE = "The input needs a text. Found: null."


def batches_used(world: World) -> None:
    """Send them, and have them stand as workers would leave them."""
    done, refused, running = (_sent(world, name) for name in ("leaflets-of-may", "notes", "tickets-of-june"))
    now = timezone.now()
    errors = [
        {"line": line, "error": {"code": "invalid_field", "message": MESSAGE}} for line in range(7, 43, 3)
    ]
    for kind, lines in (("results", [{}]), ("errors", errors)):
        file = file_create(
            tenant=world.tenant,
            purpose=FilePurpose.BATCH_OUTPUT,
            filename="leaflets-of-may-answers.csv" if kind == "results" else "leaflets-of-may-errors.jsonl",
            stream=io.BytesIO(jsonl(lines).encode()),
            actor=None,
        )
        batch_attach_file(done, kind, file)
    ended = {
        f"{word}_at": now - timedelta(hours=at)
        for word, at in (("created", 5), ("started", 4), ("finished", 3))
    }
    Batch.unscoped.filter(pk=done.pk).update(
        state=BatchState.COMPLETED,
        filename="leaflets-of-may.csv",
        columns={"text": "leaflet"},
        total_lines=48_020,
        lines=48_020,
        succeeded=48_008,
        failed=12,
        tokens=1_820_440,
        results_bytes=41_802,
        errors_bytes=1_204,
        **ended,
    )
    message = "The file has only empty lines."
    Batch.unscoped.filter(pk=refused.pk).update(
        state=BatchState.FAILED, error_code="empty_file", error_message=message, **ended
    )
    Batch.unscoped.filter(pk=running.pk).update(
        state=BatchState.RUNNING,
        started_at=now,
        total_lines=1_000_000,
        lines=312_456,
        succeeded=312_450,
        failed=6,
        tokens=9_330_812,
    )


def _sent(world: World, name: str) -> Batch:
    assert world.hplm.hplm is not None
    return batch_submit(
        tenant=world.tenant,
        model=world.hplm.hplm.name,
        filename=f"{name}.jsonl",
        stream=io.BytesIO(b'"a text"\n'),
        actor=world.owner,
    )
