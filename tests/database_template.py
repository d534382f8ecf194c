"""The data folder with the migrated test database. Processes and runs copy it: migrating takes seconds."""

import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path

from django.apps import apps
from django.db import connection

from hmi_site.embedded.postgres import Postgres, ensure_role, find_programs, program_version
from hmi_site.server_urls import EMBEDDED_ROLE
from tests.services import running

CHECKOUT = Path(__file__).resolve().parents[1]
SOURCES = ("hmi_site/embedded/postgres.py", "tests/database_template.py", "requirements/constraints.txt")


def copy_migrated_database(server: Postgres, cache: Path) -> None:
    """Fill the server's data folder from the template in the cache. Make the template if it is missing or
    old; other processes of the run wait for it."""
    template = cache / template_name(server)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not template.exists():
            for old in cache.glob("data-*"):
                shutil.rmtree(old)
            draft = cache / "data-draft"
            make_template(server)
            copy_with_owners(server.data, draft)
            draft.rename(template)
            return
    copy_with_owners(template, server.data)


def template_name(server: Postgres) -> str:
    """A digest of what makes the database: migrations, packages, programs."""
    files = sorted(file for app in apps.get_app_configs() for file in Path(app.path).glob("migrations/*.py"))
    digest = hashlib.sha256(str(program_version(find_programs(server.binaries))).encode())
    for file in (*files, *(CHECKOUT / source for source in SOURCES)):
        digest.update(file.read_bytes())
    return f"data-{digest.hexdigest()[:16]}"


def make_template(server: Postgres) -> None:
    """Create the data folder with the role and the migrated database; nothing runs afterwards."""
    with running(server.prepare(), server.ready):
        with server.connect("postgres") as admin:
            ensure_role(admin, EMBEDDED_ROLE)
            admin.execute(f"ALTER ROLE {EMBEDDED_ROLE} CREATEDB")
        name = connection.settings_dict["NAME"]
        connection.creation.create_test_db(verbosity=0, serialize=False)
        connection.creation.destroy_test_db(name, verbosity=0, keepdb=True)


def copy_with_owners(source: Path, target: Path) -> None:
    """PostgreSQL may run as another user than this process."""
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)
