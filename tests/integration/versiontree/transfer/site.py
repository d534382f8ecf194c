"""A site with a real, tiny version tree, and a look at everything that an import could change."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from django.conf import settings
from django.db import connection
from rest_framework.test import APIClient

from inference.hplm.hplm import Hplm
from inference.hplm.plot import PlotChain, PlotTable
from inference.hplm.root import Root
from tenants.accounts.models import User
from tenants.audit.models import AuditEvent
from tenants.base.disk import INCOMING
from tenants.usage.models import Quota
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.refusals import ROWS
from tests.integration.versiontree.tree_factory import ROLES_MADE, TenantFixture, jobs_in_order
from tests.reference_hplm import predict_reference
from tests.unit.tiny import tiny_hplm, tiny_lower, tiny_plot, tiny_root, tiny_texts
from versiontree.artifact_store import ArtifactStore
from versiontree.jobs.models import JobKind
from versiontree.jobs.services.lifecycle import job_succeed
from versiontree.tree.models import Alias, Artifact, Version, VersionArtifact
from versiontree.tree.selectors.lineage import build_inputs
from versiontree.tree.services.domains import domain_create
from versiontree.tree.services.hplms import hplm_create
from versiontree.tree.services.roots import root_register

TEXTS = ("a good river", "the bad stone in winter", "zebra, quixotic")
MEASURED: Mapping[str, Any] = {
    "fine_tune": {
        "dev": {"value": 0.75, "metric": "accuracy", "class_counts": {"no": 5}},
        "seed": 7,
        "settings": {"epochs": 3},
        "epochs": [{"loss": 0.9, "dev": 0.5}, {"loss": 0.4, "dev": 0.75}],
        "trials": [{"learning_rate": 0.01, "dev": 0.75, "epochs": [{"loss": 0.9}]}],
        "best_epoch": 2,
    },
    "evaluate": {
        "metric": "accuracy",
        "value": 0.8125,
        "majority_baseline": 0.5,
        "per_label": {"no": {"precision": 1.0, "recall": 0.5, "f1": 0.75, "support": 5}},
        "confusion": {"labels": ["no", "yes"], "rows": [[3, 2], [0, 5]]},
        "class_counts": {"no": 5, "yes": 5},
        "plot_hits": {"trigram": 0.75, "unigram": 0.25},
        "rows": 10,
    },
}
_TABLE: Mapping[str, Any] = {
    "rows": 900, "coverage": {"trigram": 0.5, "unigram": 1.0}, "levels": {"trigram": 800, "unigram": 100},
    "vectors": "float16",
}  # fmt: skip
_LEVELS: Mapping[str, Any] = {"trigram": {"cut": 0.2, "last": 0.1, "layers": [0.2, 0.1]}}
CONVERTED: Mapping[str, Any] = {
    "convert": {"unconverted": _LEVELS, "closed_form": _LEVELS, "settings": {"seed": 0, "name": None}},
    "build_plot": _TABLE,
}
PRETRAINED: Mapping[str, Any] = {
    "further_pretrain": {
        "before": {"perplexity": {"domain": 9.5, "general": 7.0}, "unexplained": _LEVELS},
        "after": {"perplexity": {"domain": 5.5, "general": None}, "unexplained": _LEVELS},
        "warnings": ["Little text."],
    },
    "build_plot": _TABLE,
}


@dataclass(frozen=True, slots=True)
class Models:
    """Folders with artifacts of a root, a domain and a model that fits them, and what jobs reported."""

    root: dict[str, Path]
    domain: dict[str, Path]
    hplm: dict[str, Path]
    converted: Mapping[str, Any] = field(default_factory=lambda: CONVERTED)
    pretrained: Mapping[str, Any] = field(default_factory=lambda: PRETRAINED)
    measured: Mapping[str, Any] = field(default_factory=lambda: MEASURED)


def make_models(scratch: Path) -> Models:
    """Random but real; takes about a second."""
    root = tiny_root(scratch / "checkpoint", lm_head=True)
    lowers = [tiny_lower(root, seed=seed) for seed in range(2)]
    folders = {name: scratch / name for name in ("root", "lower", "plot", "lower2", "plot2", "hplm")}
    root.save(folders["root"])
    lowers[0].save(folders["lower"])
    lowers[1].save(folders["lower2"])
    tiny_plot(folders["plot"], root, lowers[0], tiny_texts(60))
    tiny_plot(folders["plot2"], root, lowers[1], tiny_texts(30), share=0.4, all_unigrams=False, seed=1)
    tiny_hplm(root).save(folders["hplm"])
    return Models(
        root={role: folders[role] for role in ("root", "lower", "plot")},
        domain={"lower": folders["lower2"], "plot": folders["plot2"]},
        hplm={"hplm": folders["hplm"]},
    )


@dataclass(frozen=True, slots=True)
class Site:
    """acme's model `model` stands on the platform's `domain`, and that on `root`; globex has nothing."""

    models: Models
    acme: TenantFixture
    globex: TenantFixture
    staff: User
    root: Version
    domain: Version
    hplm: Version

    def client(self, user: User) -> APIClient:
        client = APIClient()
        client.force_login(user)
        return client


def make_site(models: Models, scratch: Path) -> Site:
    """Everything through the product's own services."""
    acme, globex = tree_factory.create_tenant("acme"), tree_factory.create_tenant("globex")
    staff = User.objects.create_user("boss", is_staff=True, is_superuser=True)
    root = build(
        root_register(
            name="tiny",
            source=tree_factory.checkpoint(scratch / "published"),
            corpus=tree_factory.corpus(None, "prose"),
            license="apache-2.0",
            source_url="https://hub.example/tiny",
            actor=staff,
        ),
        models.root,
        models.converted,
    )
    domain = build(
        domain_create(
            tenant=None,
            parent=root,
            name="medicine",
            corpus=tree_factory.corpus(None, "leaflets"),
            actor=staff,
        ),
        models.domain,
        models.pretrained,
    )
    return Site(models, acme, globex, staff, root, domain, make_hplm(acme, domain, models))


def make_hplm(home: TenantFixture, parent: Version, models: Models, name: str = "spam") -> Version:
    planted = hplm_create(
        tenant=home.tenant,
        name=name,
        parent=parent,
        dataset=home.dataset,
        license="cc-by-4.0",
        actor=home.owner,
    )
    return build(planted, models.hplm, models.measured)


def build(version: Version, folders: Mapping[str, Path], metrics: Mapping[str, Any] | None = None) -> Version:
    """Put these artifacts in place, as the jobs of the version would have done."""
    for job in jobs_in_order(version):
        worker = tree_factory.claim(job)
        roles = [role for role in ROLES_MADE[JobKind(job.kind)] if role in folders]
        made = [(role, store().ingest(role, folders[role])) for role in roles]
        job_succeed(
            job_id=job.pk, worker=worker, metrics=dict((metrics or {}).get(job.kind, {})), artifacts=made
        )
    return Version.unscoped.get(pk=version.pk)


def store() -> ArtifactStore:
    """That of the site where we are."""
    return ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))


def predictions(version: Version) -> list[dict[str, Any]]:
    """What the model says of some texts, run alone from the artifacts of its branch."""
    inputs = build_inputs(version)
    assert inputs.root is not None
    root = Root.load(store().path("root", inputs.root.digest), torch.device("cpu"), torch.float32)
    chain = PlotChain([PlotTable.open(store().path("plot", plot.digest)) for plot in inputs.plots])
    hplm = Hplm.load(store().path("hplm", version.digest))
    return [predict_reference(root, chain, hplm, text).to_json() for text in TEXTS]


def branch_of(version: Version | None) -> list[Version]:
    """The version and all above it."""
    found = []
    while version is not None:
        found.append(version)
        version = version.parent
    return found


def artifacts_of(version: Version) -> dict[tuple[str, str], bytes]:
    """Every byte of the artifacts of its branch, by kind and file, read from the store and verified."""
    found = {}
    for step in branch_of(version):
        for link in VersionArtifact.unscoped.filter(version=step).select_related("artifact"):
            store().verify(link.artifact.kind, link.artifact.digest)
            folder = store().path(link.artifact.kind, link.artifact.digest)
            for name, content in files_below(folder).items():
                found[f"{step.kind}/{link.role}", name] = content
    return found


def files_below(folder: Path) -> dict[str, bytes]:
    """Every file by its name within the folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def everything(folder: Path) -> tuple[dict[str, int], set[str]]:
    """The number of rows of every kind, and the names of all that is below the folder and in the store, but
    for the store's (empty) place for what is under way."""
    rows = (*ROWS, Artifact, VersionArtifact, Alias, AuditEvent, Quota)
    counted = {row.__name__: row._base_manager.count() for row in rows}
    found = {str(path) for place in (folder, store().root) for path in place.rglob("*")}
    return counted, found - {str(store().root / INCOMING)}


def forget_tree() -> None:
    """The tables of the tree are empty, as on a site that was just set up; tenants and people stay."""
    tables = [name for name in connection.introspection.table_names() if name.startswith(("tree_", "jobs_"))]
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(f"TRUNCATE {', '.join(tables)} CASCADE")
