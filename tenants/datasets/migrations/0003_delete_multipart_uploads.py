"""Remove multipart uploads (`/v1/uploads`). Parts of unfinished ones are uploads, which expire."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("datasets", "0002_upload_metadata"),
    ]

    operations = [
        migrations.DeleteModel(name="MultipartUpload"),
    ]
