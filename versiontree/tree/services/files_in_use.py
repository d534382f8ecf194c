"""Files that something is still to be made of."""

from collections.abc import Iterable

from django.db.models import Q

from tenants.datasets.models import File
from versiontree.tree.models import FineTuning, FineTuningState


def fine_tunings_of_file(file: File) -> Iterable[FineTuning]:
    """The fine-tunings that wait to read the file."""
    named = Q(training_file=file.pk) | Q(validation_file=file.pk)
    return FineTuning.unscoped.filter(named, tenant=file.tenant_id, state=FineTuningState.VALIDATING)
