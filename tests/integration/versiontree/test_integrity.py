"""What PostgreSQL itself refuses, whoever asks."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction

from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.jobs.models import Job
from versiontree.tree.models import Alias, Artifact, Domain, Hplm, Root, Version, VersionArtifact

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_platform_scope")]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
ANY = {"kind": "hplm", "digest": "a" * 64, "size": 1, "files": {}}


@dataclass
class Tree:
    """`model` below `domain` below `root`; `unfinished` below the root, both acme's. `secret` is a domain of
    acme's, `mine` and `theirs` are models of acme and globex without versions."""

    acme: TenantFixture
    globex: TenantFixture
    root: Version
    domain: Version
    model: Version
    unfinished: Version
    secret: Version
    mine: Hplm
    theirs: Hplm

    def birth(self, above: Version, **changes: Any) -> Version:
        """A version of `mine` below another, with some of its columns changed."""
        columns = {"kind": "model", "parent": above, "root": above.root, "number": 9, "hplm": self.mine}
        return Version.unscoped.create(**(columns | {"tenant": self.acme.tenant} | changes))

    def change(self, version: Version, **columns: Any) -> None:
        """Update the version's row."""
        Version.unscoped.filter(pk=version.pk).update(**columns)

    def delete(self, version: Version) -> None:
        """Delete the version's row, without Django's checks."""
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM tree_version WHERE id = %s", [version.pk])

    def link(self, version: Version, artifact: Artifact | None = None, **columns: Any) -> None:
        """Link an artifact, by default a table, to the version."""
        found = artifact or Artifact.objects.filter(kind="plot").earliest("pk")
        asked = {"version": version, "artifact": found, "tenant": self.acme.tenant, "role": "hplm"}
        VersionArtifact.unscoped.create(**(asked | columns))

    def job(self, **columns: Any) -> Job:
        """A job of the model."""
        asked = {"kind": "evaluate", "version": self.model, "tenant": self.acme.tenant, "state": "queued"}
        return Job.unscoped.create(**(asked | columns))


@pytest.fixture
def tree(domain: Version, acme: TenantFixture, globex: TenantFixture) -> Tree:
    mine, theirs = (
        Hplm.unscoped.create(tenant=home.tenant, name=name, task="classification")
        for home, name in ((acme, "mine"), (globex, "theirs"))
    )
    assert domain.parent is not None
    return Tree(
        acme,
        globex,
        root=domain.parent,
        domain=domain,
        model=tree_factory.ready_hplm(domain, "spam", acme),
        unfinished=tree_factory.new_hplm(domain.parent, "unfinished", acme),
        secret=tree_factory.ready_domain(domain.parent, "secret", home=acme),
        mine=mine,
        theirs=theirs,
    )


def changing(column: str, new: object) -> Callable[[Tree], object]:
    """The model's version has something else in the column."""
    return lambda tree: tree.change(tree.model, **{column: new})


REFUSED: dict[str, tuple[str, Callable[[Tree], object]]] = {
    "a version below another tenant's": (
        "its tenant or to the platform",
        lambda t: t.birth(t.secret, hplm=t.theirs, tenant=t.globex.tenant),
    ),
    "a platform domain below a tenant's": (
        "its tenant or to the platform",
        lambda t: t.birth(
            t.secret,
            kind="domain",
            domain=Domain.unscoped.create(root=t.root.root, name="public"),
            hplm=None,
            tenant=None,
        ),
    ),
    "a version of another tenant than its model": (
        "what it is a version of",
        lambda t: t.birth(t.domain, tenant=t.globex.tenant),
    ),
    "a model below another model": ("only its own newer versions", lambda t: t.birth(t.model)),
    "a version below an unfinished one": (
        "is ready",
        lambda t: t.birth(t.unfinished, hplm=t.unfinished.hplm),
    ),
    "a version trained on another tenant's dataset": (
        "data of its own tenant",
        lambda t: t.birth(t.domain, dataset=t.globex.dataset),
    ),
    "a version trained on another tenant's corpus": (
        "data of its own tenant",
        lambda t: t.birth(t.domain, corpus=t.globex.corpus),
    ),
    "a model without parent": (
        "version_has_a_parent",
        lambda t: t.birth(t.domain, parent=None, number=1),
    ),
    "a version of nothing": ("version_is_of_one_thing", lambda t: t.birth(t.domain, hplm=None, tenant=None)),
    "a number twice": (
        "version_number_per_hplm",
        lambda t: t.birth(t.model, hplm=t.model.hplm, number=1),
    ),
    **{
        f"another {column}": ("never changes", changing(column, new))
        for column, new in (
            ("number", 7),
            ("kind", "domain"),
            ("config", {"alpha": 1}),
            ("created_at", NOW),
            ("parent_id", None),
            ("tenant_id", None),
        )
    },
    "another digest": ("digest", lambda t: t.change(t.model, digest="0" * 64)),
    "a ready version that is built again": (
        "does not go from",
        lambda t: t.change(t.model, state="building"),
    ),
    "a ready version that failed": ("does not go from", lambda t: t.change(t.model, state="failed")),
    "a ready version without digest": (
        "version_digest_when_ready",
        lambda t: t.change(t.unfinished, state="ready", ready_at=NOW),
    ),
    "a retired version with an alias": ("alias points", lambda t: t.change(t.model, state="retired")),
    "a deleted version with an alias": ("alias points", lambda t: t.delete(t.model)),
    "a deleted version with children": ("stand below", lambda t: t.delete(t.domain)),
    "an alias to another model's version": (
        "its own model",
        lambda t: Alias.unscoped.create(hplm=t.mine, name="default", version=t.model),
    ),
    "an alias to an unfinished version": (
        "ready version",
        lambda t: Alias.unscoped.create(
            hplm=tree_factory.hplm_of(t.unfinished), name="default", version=t.unfinished
        ),
    ),
    "a changed artifact": ("never changed", lambda t: Artifact.objects.update(size=0)),
    "a changed role": (
        "never changed",
        lambda t: VersionArtifact.unscoped.filter(version=t.model).update(role="plot"),
    ),
    "a removed artifact": (
        "keeps its artifacts",
        lambda t: VersionArtifact.unscoped.filter(version=t.model).delete(),
    ),
    "one more artifact of a ready version": ("takes no more", lambda t: t.link(t.model, role="plot")),
    "a table in the role of a model": ("of its kind", lambda t: t.link(t.unfinished)),
    "an artifact of the platform in a tenant's version": (
        "of the tenant of the version",
        lambda t: t.link(t.unfinished, Artifact.objects.create(**ANY), tenant=None),
    ),
    "an artifact of a tenant in another's version": (
        "of the tenant of the version",
        lambda t: t.link(t.unfinished, Artifact.objects.create(**ANY), tenant=t.globex.tenant),
    ),
    "a job of another tenant": ("tenant of its version", lambda t: t.job(tenant=t.globex.tenant)),
    "a job behind one of another version": (
        "same version",
        lambda t: t.job(state="waiting", after=Job.unscoped.filter(version=t.domain).first()),
    ),
    "a succeeded job that runs again": (
        "is done",
        lambda t: Job.unscoped.filter(version=t.model).update(state="queued"),
    ),
    "two active jobs of a version": ("job_one_active_per_version", lambda t: (t.job(), t.job())),
    "a running job without lease": ("job_lease_while_running", lambda t: t.job(state="running")),
    "a queued job with a lease": ("job_lease_while_running", lambda t: t.job(lease_expires_at=NOW)),
    "a running job without worker": (
        "job_lease_while_running",
        lambda t: t.job(state="running", lease_expires_at=NOW, worker=""),
    ),
    "two platform domains of one name": (
        "domain_name_is_unique",
        lambda t: Domain.unscoped.create(root=t.root.root, name="biomedicine", tenant=None),
    ),
}


def test_database_refuses_rows_that_break_the_tree(tree: Tree) -> None:
    faults = []
    for what, (words, act) in REFUSED.items():
        try:
            with transaction.atomic():
                act(tree)
                transaction.set_rollback(True)
            faults.append(f"{what} is taken")
        except IntegrityError as error:
            if words not in str(error):
                faults.append(f"{what}: {error}")
    assert not faults, "\n".join(faults)


def test_a_version_does_not_change_roots(domain: Version, acme: TenantFixture, tmp_path: Path) -> None:
    other = tree_factory.ready_root(tmp_path, "other")
    mine = Hplm.unscoped.create(tenant=acme.tenant, name="mine", task="classification")
    with pytest.raises(IntegrityError, match="one root"), transaction.atomic():
        Version.unscoped.create(
            kind="model", parent=domain, root=other.root, number=9, hplm=mine, tenant=acme.tenant
        )


def test_a_ready_version_gets_one_profile_and_keeps_it(model: Version) -> None:
    made = [
        Artifact.objects.create(**(ANY | {"kind": "cascade", "digest": digit * 64})) for digit in ("b", "c")
    ]
    link = partial(VersionArtifact.unscoped.create, version=model, tenant=model.tenant, role="cascade")
    link(artifact=made[0])
    with pytest.raises(IntegrityError, match="version_artifact_role_is_unique"), transaction.atomic():
        link(artifact=made[1])
    with pytest.raises(IntegrityError, match="keeps its artifacts"), transaction.atomic():
        VersionArtifact.unscoped.filter(artifact=made[0]).delete()


def test_names_are_slugs_in_the_database_too(acme: TenantFixture) -> None:
    for name in ("", "Upper", "-x", "x-", "a b", "ä", "x" * 64, "a/b", "x\n"):
        with pytest.raises(DatabaseError), transaction.atomic():
            Root.objects.create(name=name, source="x")
        with pytest.raises(DatabaseError), transaction.atomic():
            Hplm.unscoped.create(tenant=acme.tenant, name=name, task="tagging")
