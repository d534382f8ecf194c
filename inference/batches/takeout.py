"""What a takeout holds of a tenant's batches."""

from collections.abc import Iterator
from typing import Final

from inference.batches.models import Batch
from tenants.accounts.models import Tenant
from tenants.base.hooks import TakeoutPart
from versiontree.transfer.takeout.tenant_parts import table_part

COLUMNS: Final = (
    "id",
    "model",
    "version_number",
    "filename",
    "state",
    "lines",
    "succeeded",
    "failed",
    "tokens",
    "created_at",
    "finished_at",
    "input_id",
    "results_id",
    "errors_id",
)


def batch_parts(tenant: Tenant) -> Iterator[TakeoutPart]:
    """A table of them; their files are among the files."""
    yield table_part("batches.csv", Batch.objects.for_tenant(tenant).order_by("created_at", "pk"), COLUMNS)
