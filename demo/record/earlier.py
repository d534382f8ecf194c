"""The demo that copies of HMI made before they recorded it: found by its names."""

from pathlib import Path
from typing import Final

from django.conf import settings

from demo.people import logins_read
from demo.record.models import DemoPart
from demo.version import DECODER, DOMAIN, ROOT
from tenants.accounts.models import Tenant
from tenants.datasets.models import Corpus, Dataset
from versiontree.tree.models import Domain, Hplm, Root, Version
from versiontree.tree.models.version import VersionKind

EARLIER_VERSION: Final = 1
ROOTS: Final = {ROOT: "minilm", DECODER: "smollm2"}
DOMAIN_NAME: Final = "python-docs"
CORPORA: Final = {ROOT: "general-prose", DOMAIN: "python-docs"}
MODELS: Final = (
    *(("acme", "package-of-docstring"), ("globex", "parameter-names"), ("initech", "section-of-paragraph")),
    *(("umbrella", "declared-types"), ("hooli", "describe-function"), ("vandelay", "explain-parameter")),
)
MARKS: Final = ("demo.built", "demo.generative.built")


def earlier_demo_adopt() -> None:
    """Record the demo of an earlier copy as version 1, if this installation has one."""
    if not {slug for slug, _ in MODELS} & logins_read().keys():
        return
    corpora = {part: _corpus(name) for part, name in CORPORA.items()}
    for part, name in ROOTS.items():
        if (root := Root.objects.filter(name=name).first()) is not None:
            version = root.versions.filter(kind=VersionKind.ROOT).earliest("number")
            _adopt(part, version, root=root, corpus=corpora.get(part))
    domain = Domain.unscoped.filter(name=DOMAIN_NAME, tenant=None).first()
    if domain is not None:
        _adopt(DOMAIN, domain.versions.earliest("number"), domain=domain, corpus=corpora[DOMAIN])
    for slug, name in MODELS:
        tenant = Tenant.objects.filter(slug=slug).first()
        hplm = Hplm.unscoped.filter(tenant=tenant, name=name, deleted_at=None).first() if tenant else None
        if tenant is not None and hplm is not None:
            dataset = Dataset.objects.for_tenant(tenant).filter(name=name).first()
            version = hplm.versions.earliest("number")
            _adopt(f"{slug}/{name}", version, tenant=tenant, hplm=hplm, dataset=dataset)
    for mark in MARKS:
        (Path(settings.HMI_HOME) / mark).unlink(missing_ok=True)


def _adopt(part: str, version: Version, **rows: object) -> None:
    made = {"version": EARLIER_VERSION, "made_at": version.created_at, "ready_at": version.ready_at}
    DemoPart.unscoped.create(name=part, **made, **rows)


def _corpus(name: str) -> Corpus | None:
    return Corpus.unscoped.filter(tenant=None, name=name).first()
