"""Indexes of what the start page asks of a tenant with thousands of hPLMs and jobs."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("versiontree", "0012_version_artifacts_of_tenants")]

    operations = [
        migrations.AddIndex(
            model_name="hplm",
            index=models.Index(
                condition=models.Q(("deleted_at__isnull", True)),
                fields=["tenant", "-created_at"],
                name="hplm_tenant_newest",
            ),
        ),
        migrations.AddIndex(
            model_name="hplm",
            index=models.Index(
                condition=models.Q(("deleted_at__isnull", False)),
                fields=["tenant"],
                name="hplm_deleted_of_tenant",
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("state__in", ["waiting", "queued", "running"])),
                fields=["tenant"],
                name="job_active_of_tenant",
            ),
        ),
    ]
