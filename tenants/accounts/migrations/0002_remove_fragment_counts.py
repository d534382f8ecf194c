"""Missed fragments are no longer counted, so tenants have no setting for that."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0001_initial")]

    operations = [
        migrations.RemoveField(model_name="tenant", name="shares_fragment_counts"),
        migrations.RemoveField(model_name="tenant", name="stopped_sharing_at"),
        migrations.AlterField(
            model_name="tenant",
            name="checks_answers",
            field=models.BooleanField(
                db_default=True,
                default=True,
                help_text="Compute a sample of the texts that were answered from tables in full too, when no"
                " other request waits, and count whether both answers agree. No texts are kept. Not charged.",
            ),
        ),
    ]
