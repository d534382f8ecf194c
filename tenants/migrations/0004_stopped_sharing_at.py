from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0003_tasks_pairs_and_sharing"),
    ]

    operations = [
        migrations.AddField(
            model_name="tenant",
            name="stopped_sharing_at",
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AlterField(
            model_name="tenant",
            name="shares_fragment_counts",
            field=models.BooleanField(
                db_default=True,
                default=True,
                help_text="Count which fragments (runs of a few tokens) the tables lack, so that they can grow by them. A domain that all read takes only those that several tenants missed. No whole text is kept; turning this off deletes the tenant's counts within a few minutes.",
            ),
        ),
    ]
