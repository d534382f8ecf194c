"""``python -m tests.integration.serving_faults.fill FOLDER PASSWORD``: an empty database becomes that of a
tenant with a model that is ready, whose owner signs in with this password. Prints a key that may ask it."""

import sys
from pathlib import Path

import django

django.setup()

from django.core.management import call_command  # noqa: E402

from tenants.accounts.services.api_keys import api_key_create  # noqa: E402
from tenants.base.scope import use_platform_scope  # noqa: E402
from tests.integration.jobs.world import make_world  # noqa: E402
from tests.unit.tiny import tiny_hplm, tiny_root  # noqa: E402


def main(scratch: Path, password: str) -> str:
    """The key."""
    use_platform_scope()
    call_command("migrate", verbosity=0)
    world = make_world(scratch)
    world.owner.set_password(password)
    world.owner.save(update_fields=["password"])
    root_version = world.ready_root(scratch / "root")
    root = tiny_root(scratch / "same")
    world.ready_hplm(root_version, tiny_hplm(root), scratch, name="mood")
    return api_key_create(tenant=world.tenant, name="infer", scopes=["infer"], created_by=None)[1]


if __name__ == "__main__":
    print(main(Path(sys.argv[1]), sys.argv[2]))  # noqa: T201
