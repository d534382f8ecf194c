"""An index that answers whose a version is, without its row."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("versiontree", "0010_batches")]

    operations = [
        migrations.AddIndex(
            model_name="version",
            index=models.Index(fields=["tenant", "id"], include=("hplm",), name="version_of_tenant"),
        ),
    ]
