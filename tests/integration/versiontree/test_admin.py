"""The admin: forms, lists and buttons call the services and show their errors."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from inference.api.admission import close_gateway
from tenants.accounts.models import User
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.admin_pages import NO_INLINES, act, plain
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.jobs.models import Job, JobState
from versiontree.jobs.services.control import job_cancel
from versiontree.tree.models import Alias, AliasMove, Domain, Hplm, Root, Version
from versiontree.tree.services.domains import domain_update
from versiontree.tree.services.hplms import hplm_update

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_platform_scope")]


@pytest.fixture
def staff(db: None, client: Client) -> Iterator[Client]:
    client.force_login(User.objects.create_superuser("boss"))
    yield client
    close_gateway()  # the first page asks the queue


def test_adding_a_root_registers_it(staff: Client, tmp_path: Path) -> None:
    text = tree_factory.corpus(None, "prose")
    source = tree_factory.checkpoint(tmp_path / "ckpt")
    form = {
        "name": "bert",
        "kind": "encoder",
        "source": source,
        "corpus": text.pk,
        "cut": "accurate",
        "lower_layers": "",
        "alpha": "50",
    }
    answer = staff.post(reverse("admin:tree_root_add"), form)
    assert answer.status_code == 302, answer.content.decode()
    root = Root.objects.get(name="bert")
    convert, build = tree_factory.jobs_in_order(Version.unscoped.get(root=root))
    assert (convert.kind, build.kind) == ("convert", "build_plot")
    assert convert.params["settings"] == {"cut": "accurate"}


def test_a_root_can_be_served_as_it_is_with_a_first_model(
    staff: Client, acme: TenantFixture, tmp_path: Path
) -> None:
    source = tree_factory.checkpoint(tmp_path / "ckpt")
    form = {
        "name": "tone",
        "kind": "encoder",
        "source": source,
        "as_it_is": "on",
        "first_model": "acme/tone",
        "pairs": "on",
    }
    refused = staff.post(reverse("admin:tree_root_add"), form)
    assert "has no task head" in plain(refused)
    about = {"model_type": "bert", "architectures": ["BertForSequenceClassification"]}
    (Path(source) / "config.json").write_text(json.dumps(about))
    assert staff.post(reverse("admin:tree_root_add"), form).status_code == 302
    (job,) = tree_factory.jobs_in_order(Version.unscoped.get(root__name="tone"))
    assert (job.kind, job.params["head"], "corpus" in job.params) == ("convert", {"pairs": True}, False)


def test_adding_and_saving_a_domain_make_versions_of_the_platforms(staff: Client, root: Version) -> None:
    text = tree_factory.corpus(None, "medicine")
    form = {"name": "biomedicine", "description": "", "parent": root.pk, "corpus": text.pk, "alpha": "40"}
    assert staff.post(reverse("admin:tree_domain_add"), form).status_code == 302
    domain = Domain.unscoped.get(name="biomedicine")
    assert domain.tenant is None
    tree_factory.do_jobs(Version.unscoped.get(domain=domain))
    change = reverse("admin:tree_domain_change", args=[domain.pk])
    assert staff.post(change, {"corpus": text.pk, "alpha": "60", **NO_INLINES}).status_code == 302
    numbers = Version.unscoped.filter(domain=domain).order_by("number").values_list("number", "config__alpha")
    assert list(numbers) == [(1, 40.0), (2, 60.0)]
    refused = staff.post(change, {"corpus": text.pk, "alpha": "60", **NO_INLINES})
    assert "is being built" in refused.content.decode()


def test_adding_an_hplm_starts_its_jobs_and_leads_to_its_version(
    staff: Client, domain: Version, acme: TenantFixture
) -> None:
    form = {
        "tenant": acme.tenant.pk,
        "name": "spam",
        "parent": domain.pk,
        "chosen_dataset": acme.dataset.pk,
    }
    answer = staff.post(reverse("admin:tree_hplm_add"), form, follow=True)
    version = Version.unscoped.get(hplm__name="spam")
    assert (version.tenant, version.parent, version.number) == (acme.tenant, domain, 1)
    assert version.created_by == User.objects.get(username="boss")
    assert [job.kind for job in tree_factory.jobs_in_order(version)] == ["fine_tune", "evaluate"]
    assert "The jobs of acme/spam:1 are queued." in plain(answer)
    assert reverse("admin:tree_version_change", args=[version.pk]) in answer.content.decode()


def test_saving_an_hplm_teaches_it_from_new_data(staff: Client, root: Version, acme: TenantFixture) -> None:
    first = tree_factory.ready_hplm(root, "spam", acme)
    more = tree_factory.dataset(acme.tenant, "more")
    change = reverse("admin:tree_hplm_change", args=[first.hplm_id])
    answer = staff.post(change, {"chosen_dataset": more.pk, **NO_INLINES})
    assert answer.status_code == 302, plain(answer)
    second = Version.unscoped.get(hplm=first.hplm_id, number=2)
    assert (second.parent, second.dataset) == (first, more)
    assert second.config["auto_promote"] is False
    tree_factory.do_jobs(second)
    assert Alias.unscoped.get().version == first
    staff.post(change, {"chosen_dataset": more.pk, "auto_promote": "on", **NO_INLINES})
    tree_factory.do_jobs(Version.unscoped.get(hplm=first.hplm_id, number=3))
    assert Alias.unscoped.get().version.number == 3


def test_refused_new_model_shows_the_error_at_its_field(
    staff: Client, root: Version, acme: TenantFixture, globex: TenantFixture
) -> None:
    tree_factory.new_hplm(root, "ham", acme)
    add = reverse("admin:tree_hplm_add")
    form = {"tenant": acme.tenant.pk, "name": "spam", "parent": root.pk, "chosen_dataset": acme.dataset.pk}
    foreign = tree_factory.ready_domain(root, "theirs", home=globex)
    refusals = {
        "name": ("ham", "A model named 'ham' already exists."),
        "parent": (foreign.pk, "There is no such version of a root or domain."),
        "chosen_dataset": (globex.dataset.pk, "There is no such dataset."),
    }
    for field, (value, message) in refusals.items():
        answer = staff.post(add, form | {field: value})
        assert answer.status_code == 200
        assert answer.context["adminform"].form.errors == {field: [message]}
        assert message in plain(answer)
    assert Hplm.unscoped.count() == 1


def test_a_dataset_is_found_by_typing(staff: Client, acme: TenantFixture, globex: TenantFixture) -> None:
    asked = {"app_label": "tree", "model_name": "version", "field_name": "dataset", "term": "globex"}
    found = staff.get(reverse("admin:autocomplete"), asked).json()["results"]
    assert [row["text"] for row in found] == ["globex/globex-labels"]


def test_jobs_are_cancelled_and_retried_by_actions(staff: Client, root: Version, acme: TenantFixture) -> None:
    job = tree_factory.jobs_in_order(tree_factory.new_hplm(root, "spam", acme))[0]
    assert "1 canceled" in act(staff, "job", "cancel", job)
    job.refresh_from_db()
    assert job.state == JobState.CANCELLED
    assert "cannot be canceled" in act(staff, "job", "cancel", job)
    assert "1 retried" in act(staff, "job", "retry", job)
    job.refresh_from_db()
    assert job.state == JobState.QUEUED
    both = [job, tree_factory.jobs_in_order(tree_factory.new_hplm(root, "ham", acme))[0]]
    assert '<code dir="auto">cancel 2 jobs</code>' in act(staff, "job", "cancel", *both)
    assert {one.state for one in Job.unscoped.filter(pk__in=[one.pk for one in both])} == {JobState.QUEUED}
    assert "2 canceled" in act(staff, "job", "cancel", *both, typed_name="cancel 2 jobs")


def test_a_failed_version_is_retried_by_an_action(staff: Client, root: Version, acme: TenantFixture) -> None:
    version = tree_factory.new_hplm(root, "spam", acme)
    job_cancel(job=tree_factory.jobs_in_order(version)[0], actor=None)
    assert "1 retried" in act(staff, "version", "retry", version)


def test_a_version_shows_its_parts_by_name_and_its_json_folded(staff: Client, domain: Version) -> None:
    page = staff.get(f"/admin/tree/version/{domain.pk}/change/").content.decode()
    assert ("Lookup table" in page, "PLOT" in page) == (True, False)
    assert page.count("<details><summary>Show</summary>") == 2


def test_the_link_that_adds_a_row_says_what_it_adds(staff: Client, root: Version) -> None:
    page = staff.get("/admin/tree/domain/").content.decode()
    assert "Add domain</a>" in page


def test_the_tables_of_a_domain_are_compacted_by_an_action(staff: Client, domain: Version) -> None:
    owner = tree_factory.domain_of(domain)
    assert "no such chain of tables" in act(staff, "domain", "compact", owner)
    tree_factory.do_jobs(domain_update(domain=owner, corpus=tree_factory.corpus(None, "more"), actor=None))
    assert "1 compacting" in act(staff, "domain", "compact", owner)
    compacted = Version.unscoped.get(domain=owner, number=3)
    assert compacted.created_by == User.objects.get(username="boss")
    assert [job.kind for job in tree_factory.jobs_in_order(compacted)] == ["compact"]
    assert "Version 3 of biomedicine is being built." in act(staff, "domain", "compact", owner)


def test_saving_an_alias_moves_it(staff: Client, root: Version, acme: TenantFixture) -> None:
    first = tree_factory.ready_hplm(root, "spam", acme)
    tree_factory.do_jobs(hplm_update(hplm=tree_factory.hplm_of(first), dataset=acme.dataset, actor=None))
    alias = Alias.unscoped.get()
    change = reverse("admin:tree_alias_change", args=[alias.pk])
    refused = staff.post(change, {"version": first.pk, "reason": " "})
    assert refused.context["adminform"].form.errors == {"reason": ["This field is required."]}
    assert staff.post(change, {"version": first.pk, "reason": "rollback"}).status_code == 302
    alias.refresh_from_db()
    assert alias.version == first
    assert AliasMove.unscoped.latest("moved_at").reason == "rollback"


def test_artifacts_are_verified_by_an_action(staff: Client, root: Version, artifact_root: Path) -> None:
    row = root.artifact_links.get(role="plot").artifact
    assert "1 verified" in act(staff, "artifact", "verify", row)
    (artifact_root / "plot" / row.digest[:2] / row.digest / "plot.json").unlink()
    assert "changed on disk" in act(staff, "artifact", "verify", row)
