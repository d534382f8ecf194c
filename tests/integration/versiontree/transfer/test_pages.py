"""Archives in the browser and in the admin."""

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from tests.integration.versiontree.transfer.conftest import zipped
from tests.integration.versiontree.transfer.site import Site
from versiontree.tree.models import Root, Version

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tried_here")]


@pytest.fixture
def browser(site: Site, client: Client) -> Client:
    """The owner of globex is signed in."""
    client.force_login(site.globex.owner)
    return client


def test_an_archive_becomes_an_hplm_whose_page_follows(site: Site, browser: Client) -> None:
    at = reverse("frontend:version_import", args=["globex"])
    archive = SimpleUploadedFile("spam.zip", zipped(site.hplm))
    answer = browser.post(at, {"archive": archive, "name": "ham"}, follow=True)
    version = Version.unscoped.get(hplm__name="ham")
    assert version.digest == site.hplm.digest
    assert f"{reverse('frontend:version_export', args=['globex', version.pk])}?" in answer.content.decode()


def test_administrators_export_one_version_at_a_time(site: Site, client: Client) -> None:
    client.force_login(site.staff)
    at = reverse("admin:tree_version_changelist")
    one = client.post(at, {"action": "export", "_selected_action": [site.hplm.pk]})
    assert one.getvalue() == zipped(site.hplm)
    whole = client.post(at, {"action": "export_branch", "_selected_action": [site.hplm.pk]})
    assert whole.getvalue() == zipped(site.hplm, branch=True)
    two = client.post(at, {"action": "export", "_selected_action": [site.hplm.pk, site.root.pk]}, follow=True)
    assert "one version at a time" in two.content.decode()


def test_administrators_edit_the_terms_and_the_calls_of_a_root_and_nothing_else(
    site: Site, client: Client
) -> None:
    client.force_login(site.staff)
    at = reverse("admin:tree_root_change", args=[site.root.root_id])
    said = {"license": "mit", "source_url": "https://x.example", "name": "evil"}
    formset = {"versions-TOTAL_FORMS": 0, "versions-INITIAL_FORMS": 0}
    assert client.post(at, said | formset).status_code == 302
    root = Root.objects.get(pk=site.root.root_id)
    assert (root.license, root.source_url, root.name) == ("mit", "https://x.example", "tiny")
    assert not root.is_callable, "the switch was off"
