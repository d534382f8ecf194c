"""The manage requests: what they make, and what they refuse without leaving a trace."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from tenants.errors import ErrorCode, HmiError
from tenants.models import AuditEvent, Corpus
from tenants.services.datasets import dataset_delete
from tests.integration.versiontree import grove
from tests.integration.versiontree.grove import Household
from versiontree.models import Alias, AliasMove, Domain, Hplm, Job, JobEvent, Root, Version
from versiontree.models.job import JobState
from versiontree.services.aliases import alias_move
from versiontree.services.domains import domain_create, domain_update
from versiontree.services.hplms import hplm_create, hplm_delete, hplm_update
from versiontree.services.jobs import job_cancel, job_retry
from versiontree.services.roots import root_register

pytestmark = pytest.mark.django_db
ROWS = (Root, Domain, Hplm, Version, Job, JobEvent, AuditEvent)


def refused(act: Callable[[], object], code: ErrorCode, param: str | None = None) -> HmiError:
    """It is refused with this code, naming this parameter, and no row is left behind."""
    before = [row._default_manager.count() for row in ROWS]
    with pytest.raises(HmiError) as caught:
        act()
    assert (caught.value.code, caught.value.param) == (code, param)
    assert [row._default_manager.count() for row in ROWS] == before
    return caught.value


# --- roots ------------------------------------------------------------------------------------------------


def register(tmp_path: Path, **changes: Any) -> Version:
    asked: dict[str, Any] = {
        "name": "bert",
        "source": grove.checkpoint(tmp_path / "ckpt"),
        "corpus": Corpus.unscoped.filter(tenant=None).first() or grove.corpus(None, "prose"),
        "actor": None,
    }
    return root_register(**(asked | changes))


def test_registering_a_root_plans_a_conversion_and_its_plot(tmp_path: Path, db: None) -> None:
    version = register(tmp_path, lower=2, alpha=80, settings={"distil_tokens": 1000})
    convert, build = grove.jobs_in_order(version)
    assert (version.kind, version.number, version.parent, version.tenant) == ("root", 1, None, None)
    assert convert.params["source"] == str(tmp_path / "ckpt")
    assert convert.params["settings"] == {"distil_tokens": 1000, "lower": 2}
    assert build.after == convert
    assert (build.params["alpha"], build.params["all_unigrams"]) == (80.0, True)
    assert grove.do_jobs(version).state == "ready"


def test_a_checkpoint_with_pickled_weights_only_is_refused(tmp_path: Path, db: None) -> None:
    grove.corpus(None, "prose")
    folder = tmp_path / "pickled"
    folder.mkdir()
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04")
    refused(lambda: register(tmp_path, source=str(folder)), ErrorCode.PICKLED_CHECKPOINT, "source")


def test_a_root_name_is_given_once(root: Version, tmp_path: Path) -> None:
    refused(lambda: register(tmp_path), ErrorCode.CONFLICT, "name")


def test_a_root_is_converted_on_the_platforms_text_only(acme: Household, tmp_path: Path) -> None:
    refused(lambda: register(tmp_path, corpus=acme.corpus), ErrorCode.NOT_FOUND, "corpus")


@pytest.mark.parametrize("name", ["", "Bert", "bert base", "-bert", "b" * 64, "bert\n", "../bert"])
def test_a_name_is_a_slug(name: str, tmp_path: Path, db: None) -> None:
    grove.corpus(None, "prose")
    refused(lambda: register(tmp_path, name=name), ErrorCode.INVALID_FIELD, "name")


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"settings": {"lower": 0}}, "settings.lower"),
        ({"settings": {"lower": 2.5}}, "settings.lower"),
        ({"settings": {"lower": True}}, "settings.lower"),
        ({"settings": {"device": "cuda"}}, "settings.device"),
        ({"settings": [1]}, "settings"),
        ({"alpha": 101}, "alpha"),
        ({"alpha": float("nan")}, "alpha"),
        ({"alpha": "50"}, "alpha"),
    ],
)
def test_settings_are_known_numbers_within_bounds(
    changes: dict[str, Any], param: str, tmp_path: Path, db: None
) -> None:
    grove.corpus(None, "prose")
    refused(lambda: register(tmp_path, **changes), ErrorCode.INVALID_FIELD, param)


# --- domains ----------------------------------------------------------------------------------------------


def test_a_domain_grows_from_a_root_and_learns_its_corpus(root: Version, acme: Household) -> None:
    version = domain_create(
        tenant=acme.tenant, parent=root, name="law", corpus=acme.corpus, actor=acme.developer, alpha=40
    )
    pretrain, build = grove.jobs_in_order(version)
    assert (version.kind, version.parent, version.tenant) == ("domain", root, acme.tenant)
    assert pretrain.params["corpus"]["sha256"] == acme.corpus.sha256
    assert (build.params["alpha"], build.params["all_unigrams"]) == (40.0, False)
    assert version.created_by == acme.developer
    assert {job.tenant for job in (pretrain, build)} == {acme.tenant}


def test_a_domain_may_grow_from_another(domain: Version, acme: Household) -> None:
    version = grove.ready_domain(domain, "oncology", home=acme)
    assert (version.parent, version.state) == (domain, "ready")


def test_an_update_stands_below_the_newest_ready_version_and_keeps_its_coverage(domain: Version) -> None:
    more = grove.corpus(None, "more")
    second = domain_update(domain=grove.domain_of(domain), corpus=more, actor=None)
    assert (second.number, second.parent, second.config["alpha"]) == (2, domain, 50.0)
    grove.do_jobs(second)
    third = domain_update(domain=grove.domain_of(domain), corpus=more, actor=None, alpha=10)
    assert (third.number, third.parent, third.config["alpha"]) == (3, second, 10.0)


def test_a_domain_is_not_updated_while_a_version_of_it_is_built(domain: Version) -> None:
    more = grove.corpus(None, "more")
    domain_update(domain=grove.domain_of(domain), corpus=more, actor=None)
    refused(
        lambda: domain_update(domain=grove.domain_of(domain), corpus=more, actor=None),
        ErrorCode.CONFLICT,
        "domain",
    )


def test_too_little_text_makes_no_domain(root: Version, acme: Household, settings: Settings) -> None:
    settings.HMI_CORPUS_MIN_WORDS = 20_000
    little = grove.corpus(acme.tenant, "little", words=19_999)
    error = refused(
        lambda: domain_create(tenant=acme.tenant, parent=root, name="law", corpus=little, actor=None),
        ErrorCode.CORPUS_TOO_SMALL,
        "corpus",
    )
    assert error.details == {"words": 19_999, "minimum": 20_000}


def test_a_domain_name_is_given_once_per_owner(domain: Version, root: Version, acme: Household) -> None:
    text = grove.corpus(None, "text")
    refused(
        lambda: domain_create(tenant=None, parent=root, name="biomedicine", corpus=text, actor=None),
        ErrorCode.CONFLICT,
        "name",
    )
    own = domain_create(tenant=acme.tenant, parent=root, name="biomedicine", corpus=text, actor=None)
    assert own.tenant == acme.tenant


def test_another_tenants_corpus_is_not_found(root: Version, acme: Household, globex: Household) -> None:
    refused(
        lambda: domain_create(tenant=acme.tenant, parent=root, name="law", corpus=globex.corpus, actor=None),
        ErrorCode.NOT_FOUND,
        "corpus",
    )
    refused(
        lambda: domain_create(tenant=None, parent=root, name="law", corpus=globex.corpus, actor=None),
        ErrorCode.NOT_FOUND,
        "corpus",
    )


def test_another_tenants_domain_is_not_found_as_a_parent(
    root: Version, acme: Household, globex: Household
) -> None:
    private = grove.ready_domain(root, "secret", home=globex)
    refused(
        lambda: domain_create(tenant=acme.tenant, parent=private, name="law", corpus=acme.corpus, actor=None),
        ErrorCode.NOT_FOUND,
        "parent",
    )
    refused(
        lambda: hplm_create(
            tenant=acme.tenant, name="spam", parent=private, dataset=acme.dataset, actor=None
        ),
        ErrorCode.NOT_FOUND,
        "parent",
    )
    text = grove.corpus(None, "text")
    refused(
        lambda: domain_create(tenant=None, parent=private, name="law", corpus=text, actor=None),
        ErrorCode.NOT_FOUND,
        "parent",
    )


def test_an_unfinished_parent_is_not_ready(root: Version, acme: Household) -> None:
    text = grove.corpus(None, "text")
    unfinished = domain_create(tenant=None, parent=root, name="law", corpus=text, actor=None)
    refused(
        lambda: hplm_create(
            tenant=acme.tenant, name="spam", parent=unfinished, dataset=acme.dataset, actor=None
        ),
        ErrorCode.MODEL_NOT_READY,
        "parent",
    )


def test_an_hplm_is_no_parent_of_another(root: Version, acme: Household) -> None:
    model = grove.ready_hplm(root, "spam", acme)
    refused(
        lambda: hplm_create(tenant=acme.tenant, name="ham", parent=model, dataset=acme.dataset, actor=None),
        ErrorCode.NOT_FOUND,
        "parent",
    )


def test_the_quota_of_domains_is_kept(root: Version, acme: Household) -> None:
    for name in ("a", "b", "c"):
        domain_create(tenant=acme.tenant, parent=root, name=name, corpus=acme.corpus, actor=None)
    refused(
        lambda: domain_create(tenant=acme.tenant, parent=root, name="d", corpus=acme.corpus, actor=None),
        ErrorCode.QUOTA_EXCEEDED,
    )


# --- hPLMs ------------------------------------------------------------------------------------------------


def test_an_hplm_is_fine_tuned_and_measured(domain: Version, acme: Household) -> None:
    version = hplm_create(
        tenant=acme.tenant,
        name="spam",
        parent=domain,
        dataset=acme.dataset,
        actor=acme.developer,
        settings={"epochs": 3, "learning_rate": 0.003},
    )
    tune, evaluate = grove.jobs_in_order(version)
    assert tune.params["settings"] == {"epochs": 3, "learning_rate": 0.003}
    assert set(tune.params["dataset"]["splits"]) == {"train", "dev", "test"}
    assert (evaluate.kind, evaluate.after) == ("evaluate", tune)
    assert version.config["labels"] == ["no", "yes"]
    event = AuditEvent.objects.for_tenant(acme.tenant).get(verb="hplm.create")
    assert (event.subject, event.actor) == ("acme/spam", acme.developer)


def test_an_update_goes_on_from_the_version_that_serves(root: Version, acme: Household) -> None:
    first = grove.ready_hplm(root, "spam", acme)
    hplm = grove.hplm_of(first)
    second = grove.do_jobs(hplm_update(hplm=hplm, dataset=acme.dataset, actor=None))
    assert (second.number, second.parent) == (2, first)
    assert Alias.unscoped.get(hplm=hplm).version == second
    alias_move(hplm=hplm, name="default", version=first, actor=None, reason="worse")
    third = hplm_update(hplm=hplm, dataset=acme.dataset, actor=None)
    assert third.parent == first


def test_an_update_can_be_kept_from_serving(root: Version, acme: Household) -> None:
    first = grove.ready_hplm(root, "spam", acme)
    hplm = grove.hplm_of(first)
    grove.do_jobs(hplm_update(hplm=hplm, dataset=acme.dataset, actor=None, auto_promote=False))
    assert Alias.unscoped.get(hplm=hplm).version == first


def test_an_older_update_that_finishes_later_does_not_serve(root: Version, acme: Household) -> None:
    hplm = grove.hplm_of(grove.ready_hplm(root, "spam", acme))
    second = hplm_update(hplm=hplm, dataset=acme.dataset, actor=None)
    third = grove.do_jobs(hplm_update(hplm=hplm, dataset=acme.dataset, actor=None))
    grove.do_jobs(second)
    assert Alias.unscoped.get(hplm=hplm).version == third


def test_an_update_needs_data_of_the_same_task(root: Version, acme: Household) -> None:
    hplm = grove.hplm_of(grove.ready_hplm(root, "spam", acme))
    tagging = grove.dataset(acme.tenant, "names", task="tagging")
    refused(lambda: hplm_update(hplm=hplm, dataset=tagging, actor=None), ErrorCode.INVALID_FIELD, "dataset")


def test_an_hplm_of_which_nothing_is_ready_cannot_be_updated(root: Version, acme: Household) -> None:
    hplm = grove.hplm_of(grove.new_hplm(root, "spam", acme))
    refused(
        lambda: hplm_update(hplm=hplm, dataset=acme.dataset, actor=None), ErrorCode.MODEL_NOT_READY, "hplm"
    )


def test_another_tenants_dataset_is_not_found(root: Version, acme: Household, globex: Household) -> None:
    refused(
        lambda: hplm_create(tenant=acme.tenant, name="spam", parent=root, dataset=globex.dataset, actor=None),
        ErrorCode.NOT_FOUND,
        "dataset",
    )


def test_two_tenants_may_use_one_name(root: Version, acme: Household, globex: Household) -> None:
    grove.new_hplm(root, "spam", acme)
    grove.new_hplm(root, "spam", globex)
    refused(lambda: grove.new_hplm(root, "spam", acme), ErrorCode.CONFLICT, "name")


def test_the_quota_of_hplms_does_not_count_deleted_ones(root: Version, acme: Household) -> None:
    acme.tenant.quota.max_hplms = 1
    acme.tenant.quota.save(update_fields=["max_hplms"])
    model = grove.ready_hplm(root, "spam", acme)
    refused(lambda: grove.new_hplm(root, "ham", acme), ErrorCode.QUOTA_EXCEEDED)
    hplm_delete(hplm=grove.hplm_of(model), actor=None)
    grove.new_hplm(root, "ham", acme)


def test_the_quota_of_active_jobs_is_kept(root: Version, acme: Household) -> None:
    acme.tenant.quota.max_active_jobs = 3
    acme.tenant.quota.save(update_fields=["max_active_jobs"])
    first = grove.new_hplm(root, "spam", acme)
    refused(lambda: grove.new_hplm(root, "ham", acme), ErrorCode.QUOTA_EXCEEDED)
    job_cancel(job=grove.jobs_in_order(first)[0], actor=None)
    grove.new_hplm(root, "ham", acme)
    refused(lambda: job_retry(job=grove.jobs_in_order(first)[0], actor=None), ErrorCode.QUOTA_EXCEEDED)


def test_deleting_an_hplm_retires_it_and_frees_its_name_and_data(root: Version, acme: Household) -> None:
    model = grove.ready_hplm(root, "spam", acme)
    hplm_delete(hplm=grove.hplm_of(model), actor=acme.owner)
    model.refresh_from_db()
    assert (model.state, model.dataset) == ("retired", None)
    assert not Alias.unscoped.filter(hplm=model.hplm).exists()
    assert AliasMove.unscoped.filter(hplm=model.hplm, to_version=None).exists()
    again = grove.ready_hplm(root, "spam", acme)
    assert again.hplm != model.hplm
    refused(lambda: hplm_delete(hplm=grove.hplm_of(model), actor=None), ErrorCode.NOT_FOUND, "hplm")


def test_an_hplm_with_active_jobs_is_not_deleted(root: Version, acme: Household) -> None:
    version = grove.new_hplm(root, "spam", acme)
    error = refused(lambda: hplm_delete(hplm=grove.hplm_of(version), actor=None), ErrorCode.HAS_DEPENDENTS)
    assert error.details is not None
    assert len(error.details["jobs"]) == 2


def test_the_jobs_of_a_deleted_hplm_are_not_retried(root: Version, acme: Household) -> None:
    version = grove.new_hplm(root, "spam", acme)
    job = grove.jobs_in_order(version)[0]
    job_cancel(job=job, actor=None)
    hplm_delete(hplm=grove.hplm_of(version), actor=None)
    refused(lambda: job_retry(job=job, actor=None), ErrorCode.NOT_FOUND, "hplm")
    job.refresh_from_db()
    assert job.state == JobState.CANCELLED


def test_data_in_use_is_not_deleted(root: Version, acme: Household) -> None:
    model = grove.ready_hplm(root, "spam", acme)
    refused(lambda: dataset_delete(dataset=acme.dataset, actor=None), ErrorCode.HAS_DEPENDENTS, "dataset")
    hplm_delete(hplm=grove.hplm_of(model), actor=None)
    dataset_delete(dataset=acme.dataset, actor=None)


# --- aliases ----------------------------------------------------------------------------------------------


def test_moving_an_alias_is_written_down(root: Version, acme: Household) -> None:
    first = grove.ready_hplm(root, "spam", acme)
    hplm = grove.hplm_of(first)
    second = grove.do_jobs(hplm_update(hplm=hplm, dataset=acme.dataset, actor=None))
    alias_move(hplm=hplm, name="production", version=second, actor=acme.owner)
    alias_move(hplm=hplm, name="production", version=first, actor=acme.owner, reason="slower")
    alias_move(hplm=hplm, name="production", version=first, actor=acme.owner)  # moves nothing
    moves = AliasMove.unscoped.filter(hplm=hplm, name="production").order_by("pk")
    assert [(move.from_version, move.to_version, move.reason) for move in moves] == [
        (None, second, ""),
        (second, first, "slower"),
    ]


def test_an_alias_does_not_point_at_another_hplm(root: Version, acme: Household, globex: Household) -> None:
    mine, theirs = grove.ready_hplm(root, "spam", acme), grove.ready_hplm(root, "spam", globex)
    refused(
        lambda: alias_move(hplm=grove.hplm_of(mine), name="default", version=theirs, actor=None),
        ErrorCode.NOT_FOUND,
        "version",
    )


def test_an_alias_does_not_point_at_an_unfinished_version(root: Version, acme: Household) -> None:
    hplm = grove.hplm_of(grove.ready_hplm(root, "spam", acme))
    second = hplm_update(hplm=hplm, dataset=acme.dataset, actor=None)
    refused(
        lambda: alias_move(hplm=hplm, name="next", version=second, actor=None),
        ErrorCode.MODEL_NOT_READY,
        "version",
    )
