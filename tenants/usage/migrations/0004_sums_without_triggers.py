from importlib import import_module

from django.db import migrations

sums = import_module("tenants.usage.migrations.0002_triggers")


class Migration(migrations.Migration):
    """The flush of usage writes the sums by day and key. Those by month and model are computed."""

    dependencies = [("usage", "0003_refused_requests")]

    operations = [
        migrations.RunSQL(sums.DROP_TRIGGERS, sums.triggers(*sums.FIRST_FIGURES, "refused")),
        migrations.DeleteModel(name="UsageMonth"),
    ]
