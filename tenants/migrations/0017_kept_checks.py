"""What checks of large files leave for the storing of them."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0016_usage_by_month")]

    operations = [
        migrations.AddField(model_name="uploadcheck", name="kept", field=models.JSONField(null=True)),
    ]
