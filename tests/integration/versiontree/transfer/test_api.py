"""Archives over HTTP: downloads, uploads, licenses; and who may."""

from collections.abc import Callable
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from rest_framework.test import APIClient

from tenants.audit.models import AuditEvent
from tests.integration.versiontree.callers import V1, body_of, error, with_key
from tests.integration.versiontree.transfer.conftest import zipped
from tests.integration.versiontree.transfer.site import Site
from tests.unit.versiontree.forging import members_of
from versiontree.tree.models import Version

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tried_here")]
Move = Callable[[], None]


def send(client: APIClient, at: str, content: bytes, **more: Any) -> Any:
    """Post an archive as a form."""
    archive = SimpleUploadedFile("any.zip", content, "application/zip")
    return client.post(at, {"archive": archive, **more}, format="multipart")


def test_a_version_is_downloaded_with_a_key(site: Site) -> None:
    client = with_key(site.acme, "manage")
    at = f"{V1}/versions/{site.hplm.pk}/export"
    answer = client.get(at, headers={"accept": "application/zip"})
    assert answer["Content-Type"] == "application/zip"
    assert answer["Content-Disposition"] == 'attachment; filename="spam-v1.zip"'
    assert body_of(answer) == zipped(site.hplm)
    assert body_of(client.get(f"{at}?branch=true")) == zipped(site.hplm, branch=True)
    as_bytes = client.get(at, headers={"accept": "application/octet-stream"})
    assert as_bytes["Content-Type"] == "application/octet-stream"
    assert body_of(as_bytes) == zipped(site.hplm)
    (first, *_) = AuditEvent.unscoped.filter(verb="version.export").order_by("pk")
    assert (first.api_key is not None, first.subject) == (True, "acme/spam:1")
    assert error(client.get(f"{at}?branch=perhaps"))[0] == 422


def test_a_version_is_uploaded_with_a_key(site: Site) -> None:
    client = with_key(site.globex, "manage")
    answer = send(client, f"{V1}/import", zipped(site.hplm), name="ham")
    assert answer.status_code == 201, answer.content
    made = answer.json()
    version = Version.unscoped.get(pk=made["id"])
    assert (made["digest"], made["state"]) == (site.hplm.digest, "ready")
    assert str(version) == "globex/ham:1"
    assert client.get(f"{V1}/models/ham").json()["license"] == "cc-by-4.0"
    told = send(client, f"{V1}/import", zipped(site.hplm), name="told", parent=site.domain.pk)
    assert told.status_code == 201


def test_invalid_imports_are_refused_over_http(site: Site) -> None:
    archive = zipped(site.hplm)
    at, client = f"{V1}/import", with_key(site.globex, "manage")
    before = Version.unscoped.count()
    assert error(send(client, at, b"no zip")) == (422, "invalid_archive", "archive")
    assert error(client.post(at, {"name": "ham"}, format="multipart"))[::2] == (422, "archive")
    assert error(send(client, at, archive, parent=999_999_999))[::2] == (404, "parent")
    assert Version.unscoped.count() == before


def test_the_platform_imports_roots_for_staff_only(site: Site, another_site: Move) -> None:
    archive = zipped(site.domain, branch=True)
    another_site()
    at = f"{V1}/platform/import"
    assert error(send(site.client(site.acme.owner), at, archive))[:2] == (403, "forbidden")
    answer = send(site.client(site.staff), at, archive)
    assert answer.status_code == 201, answer.content
    assert {version.digest for version in Version.unscoped.filter(tenant=None)} == {
        site.root.digest,
        site.domain.digest,
    }
    roots = with_key(site.globex, "manage").get(f"{V1}/roots").json()["results"]
    assert [(root["license"], root["source_url"]) for root in roots] == [
        ("apache-2.0", "https://hub.example/tiny")
    ]


def test_changed_description_of_a_model_is_in_its_card(site: Site) -> None:
    client, said = with_key(site.acme, "manage"), {"description": " Sorts mail.\n\nNot for <b>court</b>. "}
    answer = client.patch(f"{V1}/models/spam", said, format="json")
    assert answer.json()["description"] == "Sorts mail.\n\nNot for <b>court</b>."
    assert answer.json()["license"] == "cc-by-4.0", "what is left out stays"
    assert rb"Sorts mail. Not for \<b\>court\</b\>." in members_of(zipped(site.hplm))["README.md"]
    assert AuditEvent.unscoped.filter(verb="model.describe").count() == 1
    for wrong in ("x" * 5001, "a\x00b", "a\x1bb"):
        refused = client.patch(f"{V1}/models/spam", {"description": wrong}, format="json")
        assert refused.status_code in {400, 422}, wrong[:3]
    assert client.get(f"{V1}/models/spam").json()["description"].startswith("Sorts mail.")
