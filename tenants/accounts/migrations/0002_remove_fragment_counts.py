"""Missed fragments are no longer counted, so tenants have no setting for that."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("accounts", "0001_initial")]

    operations = [
        migrations.RemoveField(model_name="tenant", name="shares_fragment_counts"),
        migrations.RemoveField(model_name="tenant", name="stopped_sharing_at"),
    ]
