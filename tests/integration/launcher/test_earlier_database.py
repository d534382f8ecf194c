"""A database that was made before each subject had its own application."""

import pytest
from django.conf import settings
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from rich.console import Console

from hmi_site.embedded.process import ChildError
from hmi_site.launcher import migrations

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("app", sorted(migrations.OLD_APPS))
def test_a_database_of_an_earlier_version_is_left_alone_and_the_way_out_is_told(app: str) -> None:
    recorder = MigrationRecorder(connection)
    recorder.record_applied(app, "0001_initial")
    before = recorder.applied_migrations().keys()
    with pytest.raises(ChildError, match="created by an earlier version") as refusal:
        migrations.apply(Console(quiet=True))
    assert str(settings.HMI_HOME) in str(refusal.value)
    assert "export_version" in str(refusal.value)
    assert "make up" in str(refusal.value)
    assert recorder.applied_migrations().keys() == before


def test_a_database_of_this_version_is_up_to_date() -> None:
    assert migrations.apply(Console(quiet=True)) == 0
