"""Jobs that make the quick version of a model."""

from django.db import migrations, models
from django.db.models import Q

VERSION_KINDS = ["convert", "further_pretrain", "build_plot", "quick", "fine_tune", "evaluate", "compact"]
BACKGROUND_KINDS = ["takeout", "tenant_deletion", "fine_tuning_start", "upload_check", "batch"]


class Migration(migrations.Migration):
    dependencies = [("jobs", "0005_batches_are_jobs")]

    operations = [
        migrations.RemoveConstraint(model_name="job", name="job_kind_is_known"),
        migrations.AlterField(
            model_name="job",
            name="kind",
            field=models.CharField(
                choices=[
                    ("convert", "Convert"),
                    ("further_pretrain", "Further pretrain"),
                    ("build_plot", "Build PLOT"),
                    ("quick", "Quick version"),
                    ("fine_tune", "Fine-tune"),
                    ("evaluate", "Evaluate"),
                    ("compact", "Compact PLOTs"),
                ],
                max_length=20,
            ),
        ),
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
