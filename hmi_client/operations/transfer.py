"""Import and export of versions and adapters, as zip files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal
from uuid import uuid4

from hmi_client.connection import Connection
from hmi_client.responses import Version, from_json
from hmi_client.server import as_list, json_of, url_path

ExportFormat = Literal["archive", "peft", "adapterhub"]
TIMEOUT_S = 600.0
"""The server converts and loads an adapter before it answers."""


class TransferMethods(Connection):
    """Import and export of versions and adapters, as zip files."""

    def export_version(
        self,
        version_id: int,
        path: Path,
        *,
        format: ExportFormat = "archive",  # noqa: A002 - the API's name
        branch: bool = False,
    ) -> None:
        """Download a ready version as a zip file.

        ``format`` "archive" is for another installation, with ``branch`` including the domains and the root.
        "peft" and "adapterhub" are adapters for these libraries.
        """
        params = {"format": format, "branch": str(branch).lower()}
        self._save(url_path("versions", version_id, "export"), path, params=params, timeout_s=TIMEOUT_S)

    def import_version(self, archive: Path, *, name: str = "", parent: int | None = None) -> Version:
        """Import a version from an archive. ``parent`` is required if several versions equal its old
        parent."""
        form: dict[str, str | list[str]] = {"name": name}
        if parent is not None:
            form["parent"] = str(parent)
        return self._upload("import", archive, form)

    def import_adapter(
        self,
        archive: Path,
        *,
        parent: int,
        name: str,
        new_version: bool = False,
        labels: str | Sequence[str] = (),
        task: str = "",
        pairs: bool = False,
        drop_lower: bool = False,
        license: str = "",  # noqa: A002 - the API's name
    ) -> Version:
        """Import an adapter as a model, from a zip file of the folder that PEFT or AdapterHub saved.

        ``parent`` is the id of a version of the root on whose checkpoint it was trained, or of a domain
        of that root. ``labels``, ``task`` and ``pairs`` are used if the folder does not define them.
        ``drop_lower`` discards changes to the lower layers, which the root's or domain's table
        replaces."""
        flags = {"new_version": new_version, "pairs": pairs, "drop_lower": drop_lower}
        form: dict[str, str | list[str]] = {
            "parent": str(parent),
            "name": name,
            "task": task,
            "license": license,
            **{flag: str(value).lower() for flag, value in flags.items()},
        }
        if labels:
            form["labels"] = as_list(labels)
        return self._upload("import/adapter", archive, form)

    def _upload(self, path: str, archive: Path, form: dict[str, str | list[str]]) -> Version:
        response = self._request(
            "POST",
            path,
            headers={"Idempotency-Key": uuid4().hex},
            timeout_s=TIMEOUT_S,
            data=form,
            files={"archive": archive},
        )
        return from_json(Version, json_of(response))
