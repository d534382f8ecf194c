"""Seals the secrets of second factors that were set up before they were sealed."""

from django.db import migrations

from tenants.sealing import SEALED, seal

SECRETS = ("secret", "seed")
MIGRATED = "migrated_codes"


def seal_secrets(apps, schema_editor):  # noqa: ARG001 - Django's signature
    """Each where it stands; a second run changes nothing."""
    for factor in apps.get_model("mfa", "Authenticator").objects.filter(type__in=("totp", "recovery_codes")):
        data = {name: _sealed(value) if name in SECRETS else value for name, value in factor.data.items()}
        if MIGRATED in data:
            data[MIGRATED] = [_sealed(code) for code in data[MIGRATED]]
        if data != factor.data:
            factor.data = data
            factor.save(update_fields=["data"])


def _sealed(text):
    return text if text.startswith(SEALED) else seal(text)


class Migration(migrations.Migration):
    initial = True
    dependencies = [("mfa", "0003_authenticator_type_uniq")]
    operations = [migrations.RunPython(seal_secrets, migrations.RunPython.noop)]
