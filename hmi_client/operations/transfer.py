"""Import and export of versions and adapters, as zip files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal
from uuid import uuid4

from hmi_client.flow import ApiRequest, Flow, as_list, download, send, url_path
from hmi_client.responses import Version, from_json

ExportFormat = Literal["archive", "peft", "adapterhub"]
TIMEOUT_S = 600.0
"""The server converts and loads an adapter before it answers."""


def export_version(
    version_id: int,
    path: Path,
    *,
    format: ExportFormat = "archive",  # noqa: A002 - the API's name
    branch: bool = False,
) -> Flow[None]:
    """Download a ready version as a zip file.

    ``format`` "archive" is for another installation, with ``branch`` including the domains and the root.
    "peft" and "adapterhub" are adapters for these libraries.
    """
    params = {"format": format, "branch": str(branch).lower()}
    path_to_version = url_path("versions", version_id, "export")
    request = ApiRequest("GET", path_to_version, params, timeout_s=TIMEOUT_S)
    return (yield from download(request, path))


def import_version(archive: Path, *, name: str = "", parent: int | None = None) -> Flow[Version]:
    """Import a version from an archive. ``parent`` is required if several versions equal its old parent."""
    form: dict[str, str | list[str]] = {"name": name}
    if parent is not None:
        form["parent"] = str(parent)
    return (yield from _upload("import", archive, form))


def import_adapter(
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
) -> Flow[Version]:
    """Import an adapter as a model, from a zip file of the folder that PEFT or AdapterHub saved.

    ``parent`` is the id of a version of the root on whose checkpoint it was trained, or of a domain of that
    root. ``labels``, ``task`` and ``pairs`` are used if the folder does not define them. ``drop_lower``
    discards changes to the lower layers, which the root's or domain's table replaces.
    """
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
    return (yield from _upload("import/adapter", archive, form))


def _upload(path: str, archive: Path, form: dict[str, str | list[str]]) -> Flow[Version]:
    request = ApiRequest(
        "POST",
        path,
        headers={"Idempotency-Key": uuid4().hex},
        timeout_s=TIMEOUT_S,
        form=form,
        files={"archive": archive},
    )
    response = yield from send(request)
    return from_json(Version, response.json())
