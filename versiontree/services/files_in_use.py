"""Files that something is still to be made of."""

from django.db.models import Q

from tenants.dependents import has_dependents
from tenants.models import File
from versiontree.models import Batch, FineTuning, FineTuningState
from versiontree.models.batch import ACTIVE_BATCHES


def file_keep_while_in_use(*, file: File, **_: object) -> None:
    """Hear that a file is to be deleted (``tenants.signals.file_deleting``): refuse with ``has_dependents``
    while a batch that has not ended reads it, or a fine-tuning waits to."""
    tuned = Q(training_file=file.pk) | Q(validation_file=file.pk)
    waiting = FineTuning.unscoped.filter(tuned, tenant=file.tenant_id, state=FineTuningState.VALIDATING)
    reading = [*Batch.unscoped.filter(input=file, state__in=ACTIVE_BATCHES), *waiting]
    if reading:
        raise has_dependents(f"The file {file.filename!r} is in use and stays", reading, param="file_id")
