"""What webhooks hear of batches; called in the transaction of what it tells of."""

from collections.abc import Mapping
from typing import Final

from inference.batches.models import Batch, BatchState
from tenants.webhooks.models import EventKind
from tenants.webhooks.services.events import endpoints_for, event_create, links_of

ENDS: Final[Mapping[BatchState, EventKind]] = {
    BatchState.COMPLETED: EventKind.BATCH_COMPLETED,
    BatchState.FAILED: EventKind.BATCH_FAILED,
    BatchState.CANCELLED: EventKind.BATCH_CANCELLED,
    BatchState.EXPIRED: EventKind.BATCH_EXPIRED,
}


def batch_notify(*, batch: Batch) -> None:
    """A batch has ended."""
    kind = ENDS[BatchState(batch.state)]
    endpoints = endpoints_for(batch.tenant_id, kind)
    if not endpoints:
        return
    data = {
        **links_of(endpoints[0].tenant, batch=f"batches/{batch.pk}"),
        "batch": str(batch.pk),
        "state": str(batch.state),
        "error_code": batch.error_code or None,
        "model": batch.model_name or None,
        "version": batch.version_number,
    }
    event_create(endpoints=endpoints, kind=kind, data=data)
