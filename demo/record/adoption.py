"""The demo that copies of HMI made before they recorded it: found by the names of its models."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from django.conf import settings

from demo.people import logins_read
from demo.record.models import DemoPart
from demo.version import DECODER, DOMAIN, ROOT
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
    """Record the demo of an earlier copy as version 1, if this installation has one. Without one of its
    models a root of such a name is somebody's own."""
    hplms = list(_hplms())
    if not hplms or not {slug for slug, _ in MODELS} & logins_read().keys():
        return
    corpora = {part: _corpus(name) for part, name in CORPORA.items()}
    for part, name in ROOTS.items():
        if (root := Root.objects.filter(name=name).first()) is not None:
            version = root.versions.filter(kind=VersionKind.ROOT).earliest("number")
            _adopt(part, version, root=root, corpus=corpora.get(part))
    domain = Domain.unscoped.filter(name=DOMAIN_NAME, tenant=None).first()
    if domain is not None:
        _adopt(DOMAIN, domain.versions.earliest("number"), domain=domain, corpus=corpora[DOMAIN])
    for hplm in hplms:
        dataset = Dataset.objects.for_tenant(hplm.tenant).filter(name=hplm.name).first()
        version = hplm.versions.earliest("number")
        _adopt(str(hplm), version, tenant=hplm.tenant, hplm=hplm, dataset=dataset)
    for mark in MARKS:
        (Path(settings.HMI_HOME) / mark).unlink(missing_ok=True)


def _hplms() -> Iterator[Hplm]:
    living = Hplm.unscoped.filter(deleted_at=None).select_related("tenant")
    for slug, name in MODELS:
        yield from living.filter(tenant__slug=slug, name=name)


def _adopt(part: str, version: Version, **rows: object) -> None:
    made = {"version": EARLIER_VERSION, "made_at": version.created_at, "ready_at": version.ready_at}
    DemoPart.unscoped.create(name=part, **made, **rows)


def _corpus(name: str) -> Corpus | None:
    return Corpus.unscoped.filter(tenant=None, name=name).first()
