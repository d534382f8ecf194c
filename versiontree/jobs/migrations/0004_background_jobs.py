"""Jobs without a version: background jobs, which have a subject instead."""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q

VERSION_KINDS = ["convert", "further_pretrain", "build_plot", "fine_tune", "evaluate", "compact"]
BACKGROUND_KINDS = ("takeout", "tenant_deletion", "fine_tuning_start", "upload_check")

_JOB = """
CREATE OR REPLACE FUNCTION jobs_job_check() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    owner_tenant bigint;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF (NEW.id, NEW.kind, NEW.version_id, NEW.tenant_id, NEW.after_id{subject_new})
            IS DISTINCT FROM (OLD.id, OLD.kind, OLD.version_id, OLD.tenant_id, OLD.after_id{subject_old}) THEN
            RAISE EXCEPTION 'what identifies a job never changes' USING ERRCODE = 'restrict_violation';
        END IF;
        IF OLD.state = 'succeeded' AND NEW.state <> OLD.state THEN
            RAISE EXCEPTION 'a job that succeeded is done' USING ERRCODE = 'restrict_violation';
        END IF;
        RETURN NEW;
    END IF;
    SELECT tenant_id INTO owner_tenant FROM tree_version WHERE id = NEW.version_id;
    IF {only_of_versions}owner_tenant IS DISTINCT FROM NEW.tenant_id THEN
        RAISE EXCEPTION 'a job belongs to the tenant of its version'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.after_id IS NOT NULL AND NOT EXISTS
            (SELECT 1 FROM jobs_job WHERE id = NEW.after_id AND version_id = NEW.version_id) THEN
        RAISE EXCEPTION 'a job waits only for a job of the same version'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
"""
_FORWARDS = _JOB.format(
    subject_new=", NEW.subject",
    subject_old=", OLD.subject",
    only_of_versions="NEW.version_id IS NOT NULL AND ",
)
_BACKWARDS = _JOB.format(subject_new="", subject_old="", only_of_versions="")


class Migration(migrations.Migration):
    dependencies = [("jobs", "0003_remove_growth_jobs"), ("tree", "0003_canary_counts_before")]

    operations = [
        migrations.RemoveConstraint(model_name="job", name="job_kind_is_known"),
        migrations.AddField(
            model_name="job",
            name="subject",
            field=models.CharField(blank=True, db_default="", default="", max_length=36),
        ),
        migrations.AlterField(
            model_name="job",
            name="kind",
            field=models.CharField(
                choices=[
                    ("convert", "Convert"),
                    ("further_pretrain", "Further pretrain"),
                    ("build_plot", "Build PLOT"),
                    ("fine_tune", "Fine-tune"),
                    ("evaluate", "Evaluate"),
                    ("compact", "Compact PLOTs"),
                ],
                max_length=20,
            ),
        ),
        migrations.AlterField(
            model_name="job",
            name="version",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="jobs",
                to="tree.version",
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
        migrations.AddConstraint(
            model_name="job",
            constraint=models.UniqueConstraint(
                condition=Q(state__in=["queued", "running"], version__isnull=True),
                fields=("kind", "subject"),
                name="job_one_active_per_subject",
                violation_error_message="The same work is already queued or running.",
            ),
        ),
        migrations.RunSQL(_FORWARDS, _BACKWARDS),
    ]
