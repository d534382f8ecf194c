"""The admin: every page opens, forms and actions do what the services do."""

from pathlib import Path

import pytest
from django.apps import apps
from django.test import Client
from django.urls import reverse

from tenants.models import User
from tests.integration.versiontree import grove
from tests.integration.versiontree.grove import Household
from versiontree.models import Alias, Domain, Hplm, Job, Root, Version
from versiontree.models.job import JobState
from versiontree.services.hplms import hplm_update
from versiontree.services.jobs import job_cancel

pytestmark = pytest.mark.django_db
MODELS = [model._meta.model_name for model in apps.get_app_config("versiontree").get_models()]


@pytest.fixture
def staff(db: None, client: Client) -> Client:
    client.force_login(User.objects.create_superuser("boss"))
    return client


def act(client: Client, model: str, action: str, *rows: object) -> str:
    """Run an admin action on rows; returns the page that follows."""
    answer = client.post(
        reverse(f"admin:versiontree_{model}_changelist"),
        {"action": action, "_selected_action": [str(getattr(row, "pk")) for row in rows]},  # noqa: B009
        follow=True,
    )
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.mark.parametrize("model", MODELS)
def test_every_model_has_a_list_and_a_page_for_each_row(
    model: str, staff: Client, domain: Version, acme: Household
) -> None:
    grove.ready_hplm(domain, "spam", acme)
    assert staff.get(reverse(f"admin:versiontree_{model}_changelist")).status_code == 200
    row = apps.get_model("versiontree", model)._default_manager.first()
    assert row is not None
    assert staff.get(reverse(f"admin:versiontree_{model}_change", args=[row.pk])).status_code == 200


def test_searching_every_list_works(staff: Client, domain: Version) -> None:
    for model in MODELS:
        answer = staff.get(reverse(f"admin:versiontree_{model}_changelist"), {"q": "bert"})
        assert answer.status_code == 200, model


def test_adding_a_root_registers_it(staff: Client, tmp_path: Path) -> None:
    text = grove.corpus(None, "prose")
    source = grove.checkpoint(tmp_path / "ckpt")
    form = {"name": "bert", "source": source, "corpus": text.pk, "lower": "", "alpha": "50"}
    answer = staff.post(reverse("admin:versiontree_root_add"), form)
    assert answer.status_code == 302, answer.content.decode()
    root = Root.objects.get(name="bert")
    kinds = [job.kind for job in grove.jobs_in_order(Version.unscoped.get(root=root))]
    assert kinds == ["convert", "build_plot"]


def test_a_bad_root_is_refused_at_the_form_and_leaves_nothing(staff: Client, tmp_path: Path) -> None:
    text = grove.corpus(None, "prose")
    folder = tmp_path / "pickled"
    folder.mkdir()
    (folder / "pytorch_model.bin").write_bytes(b"cos\nsystem")
    form = {"name": "bert", "source": str(folder), "corpus": text.pk, "lower": "", "alpha": "50"}
    answer = staff.post(reverse("admin:versiontree_root_add"), form)
    assert answer.status_code == 200
    assert "pytorch_model.bin" in answer.content.decode()
    assert not Root.objects.exists()
    assert not Job.unscoped.exists()


def test_adding_and_saving_a_domain_make_versions_of_the_platforms(staff: Client, root: Version) -> None:
    text = grove.corpus(None, "medicine")
    form = {"name": "biomedicine", "description": "", "parent": root.pk, "corpus": text.pk, "alpha": "40"}
    assert staff.post(reverse("admin:versiontree_domain_add"), form).status_code == 302
    domain = Domain.unscoped.get(name="biomedicine")
    assert domain.tenant is None
    grove.do_jobs(Version.unscoped.get(domain=domain))
    change = reverse("admin:versiontree_domain_change", args=[domain.pk])
    assert staff.post(change, {"corpus": text.pk, "alpha": "60"}).status_code == 302
    numbers = Version.unscoped.filter(domain=domain).order_by("number").values_list("number", "config__alpha")
    assert list(numbers) == [(1, 40.0), (2, 60.0)]
    refused = staff.post(change, {"corpus": text.pk, "alpha": "60"})
    assert "is being built" in refused.content.decode()


def test_jobs_are_cancelled_and_retried_by_actions(staff: Client, root: Version, acme: Household) -> None:
    job = grove.jobs_in_order(grove.new_hplm(root, "spam", acme))[0]
    assert "1 cancelled" in act(staff, "job", "cancel", job)
    job.refresh_from_db()
    assert job.state == JobState.CANCELLED
    assert "cannot be cancelled" in act(staff, "job", "cancel", job)
    assert "1 retried" in act(staff, "job", "retry", job)
    job.refresh_from_db()
    assert job.state == JobState.QUEUED


def test_a_failed_version_is_retried_by_an_action(staff: Client, root: Version, acme: Household) -> None:
    version = grove.new_hplm(root, "spam", acme)
    job_cancel(job=grove.jobs_in_order(version)[0], actor=None)
    assert "1 retried" in act(staff, "version", "retry", version)


def test_an_hplm_is_deleted_by_an_action(staff: Client, root: Version, acme: Household) -> None:
    version = grove.ready_hplm(root, "spam", acme)
    assert "1 deleted" in act(staff, "hplm", "stop_serving", grove.hplm_of(version))
    assert Hplm.unscoped.get().deleted_at is not None


def test_saving_an_alias_moves_it(staff: Client, root: Version, acme: Household) -> None:
    first = grove.ready_hplm(root, "spam", acme)
    grove.do_jobs(hplm_update(hplm=grove.hplm_of(first), dataset=acme.dataset, actor=None))
    alias = Alias.unscoped.get()
    change = reverse("admin:versiontree_alias_change", args=[alias.pk])
    assert staff.post(change, {"version": first.pk, "reason": "rollback"}).status_code == 302
    alias.refresh_from_db()
    assert alias.version == first


def test_artifacts_are_verified_by_an_action(staff: Client, root: Version, artifact_root: Path) -> None:
    row = root.artifact_links.get(role="plot").artifact
    assert "1 verified" in act(staff, "artifact", "verify", row)
    (artifact_root / "plot" / row.digest[:2] / row.digest / "plot.json").unlink()
    assert "changed on disk" in act(staff, "artifact", "verify", row)


def test_staff_without_rights_see_no_actions(client: Client, root: Version) -> None:
    viewer = User.objects.create_user("viewer", is_staff=True)
    client.force_login(viewer)
    assert client.get(reverse("admin:versiontree_job_changelist")).status_code == 403
