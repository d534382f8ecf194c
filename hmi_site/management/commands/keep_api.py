"""`manage.py keep_api`: keep the description of the API as that of this release."""

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from hmi_site.reference.breaking import breaking_changes
from hmi_site.reference.releases import document_now, document_of_release, documents_kept


class Command(BaseCommand):
    """Writes `docs/api/openapi-VERSION.json`, with which the API of later versions is compared."""

    help = "Keep the description of the API as that of this version, for comparison with later ones."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--break-clients", action="store_true", help="keep it although clients of before cannot go on"
        )

    def handle(self, *_: Any, break_clients: bool, **__: Any) -> None:
        document, target = document_now(), document_of_release()
        for kept in documents_kept():
            broken = breaking_changes(json.loads(kept.read_text(encoding="utf-8")), document)
            if broken and not break_clients:
                raise CommandError(
                    f"Clients of {kept.name} could not go on:\n"
                    + "\n".join(broken)
                    + "\n--break-clients keeps it still."
                )
            if broken:
                kept.unlink()
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        self.stdout.write(f"wrote {target}")
