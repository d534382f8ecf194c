"""`manage.py reference`: the generated pages of the documentation, and the API of a release."""

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from hmi_site.reference.breaking import breaking_changes
from hmi_site.reference.files import document_now, document_of_release, documents_kept, pages_now


class Command(BaseCommand):
    """Writes `docs/reference.md` and `docs/command.md`. With `--release` also keeps the description of the
    API as that of this version, with which later ones are compared."""

    help = "Write the generated pages of the documentation; --release keeps the API as this version has it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--release", action="store_true", help="keep the description of the API")
        parser.add_argument(
            "--break-clients", action="store_true", help="keep it although clients of before cannot go on"
        )

    def handle(self, *_: Any, **options: Any) -> None:
        for path, content in pages_now().items():
            path.write_text(content, encoding="utf-8")
            self.stdout.write(f"wrote {path}")
        if options["release"]:
            self._keep(break_clients=options["break_clients"])

    def _keep(self, *, break_clients: bool) -> None:
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
