"""The demo is built by a kind of background job."""

from django.db import migrations, models
from django.db.models import Q

VERSION_KINDS = ["convert", "further_pretrain", "build_plot", "quick", "fine_tune", "evaluate", "compact"]
BACKGROUND_KINDS = ["takeout", "tenant_deletion", "fine_tuning_start", "upload_check", "batch", "demo"]


class Migration(migrations.Migration):
    dependencies = [("jobs", "0006_quick_versions")]

    operations = [
        migrations.RemoveConstraint(model_name="job", name="job_kind_is_known"),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=Q(kind__in=VERSION_KINDS, version__isnull=False, subject="")
                | (Q(kind__in=BACKGROUND_KINDS, version__isnull=True) & ~Q(subject="")),
                name="job_kind_is_known",
                violation_error_message="The kind of job is unknown, or lacks its version or subject.",
            ),
        ),
    ]
