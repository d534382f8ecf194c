"""Things in the state that a request needs to succeed, where those that stand for the parameters of routes
are in another."""

import io
from pathlib import Path

from inference.batches.models import Batch, BatchState
from tenants.accounts.models import ApiKey, Tenant, User
from tenants.datasets.models import Corpus
from tenants.datasets.services.corpora import corpus_upload
from tenants.datasets.services.datasets import dataset_upload
from tenants.datasets.services.uploads import upload_create, upload_receive
from tenants.usage.models import Quota
from tests.e2e.batches import batches_used
from tests.e2e.tiny_files import TinyFiles
from tests.e2e.world import World, corpus_file, nothing_of_use, tickets_file, versions_finish
from tests.integration.contract.known import Named, Special
from tests.integration.contract.ready_openai import for_openai
from tests.integration.versiontree.answered import answers_keep, label_judge
from tests.integration.versiontree.transfer.adapters.made import lora_members
from tests.integration.versiontree.transfer.conftest import zipped
from tests.integration.versiontree.tree_factory import checkpoint, domain_of, jobs_in_order
from tests.unit.versiontree.forging import zip_of
from versiontree.jobs.models import Job
from versiontree.jobs.services.control import job_cancel
from versiontree.tree.models import Version
from versiontree.tree.services.aliases import alias_move
from versiontree.tree.services.canaries import canary_start
from versiontree.tree.services.domains import domain_create, domain_update
from versiontree.tree.services.hplms import hplm_update
from versiontree.tree.services.roots import root_register

Actor = User | ApiKey
TEXT = b"some text"
ROOM = {"max_domains": 50, "max_active_jobs": 50}


def for_good_requests(world: World, files: TinyFiles, scratch: Path, actor: Actor) -> Special:
    """What good requests name of what is made here. Uploads are the actor's; quotas have room."""
    Quota.unscoped.update_or_create(tenant=world.tenant, defaults=ROOM)
    own = _domain(world, files)
    return {
        **_domains(world, own, files),
        **_jobs(world),
        **_archives(world, own, files),
        **_trials(world),
        **_batches(world),
        **_unused(world),
        **_uploads(world, actor),
        **for_openai(world, files, actor),
        **_said(scratch),
    }


def _domain(world: World, files: TinyFiles) -> Version:
    """Of the tenant, ready."""
    made = domain_create(
        tenant=world.tenant, parent=world.root, name="grown", corpus=world.corpus, actor=world.owner
    )
    versions_finish(made, files=files)
    return Version.unscoped.get(pk=made.pk)


def _domains(world: World, own: Version, files: TinyFiles) -> Special:
    """What is asked of the tenant's and of the platform's, each with two tables of its own."""
    platform = _corpus_of_all()
    for domain, corpus in ((own, world.corpus), (world.domain, platform)):
        further = domain_update(domain=domain_of(domain), corpus=corpus, actor=world.admin)
        versions_finish(further, files=files)
    below = {"domain_id": domain_of(own).pk}
    below_platform = {"domain_id": domain_of(world.domain).pk, "corpus": platform.pk}
    found: dict[str, Named] = {
        f"POST /platform/{asked}": {"parent": world.root.pk, "corpus": platform.pk}
        for asked in ("domains", "estimate/domain")
    }
    for asked in ("compact", "estimate", "versions"):
        found[f"POST /domains/{{domain_id}}/{asked}"] = below
        found[f"POST /platform/domains/{{domain_id}}/{asked}"] = below_platform
    return found


def _jobs(world: World) -> Special:
    """Of the tenant and of the platform."""
    tenants = _jobs_below("", _domains_begun(world, world.tenant, world.corpus))
    return tenants | _jobs_below("/platform", _domains_begun(world, None, _corpus_of_all()))


def _domains_begun(world: World, tenant: Tenant | None, corpus: Corpus) -> list[Job]:
    """The first jobs of two domains."""
    return [
        jobs_in_order(
            domain_create(tenant=tenant, parent=world.root, name=name, corpus=corpus, actor=world.admin)
        )[0]
        for name in ("one-begun", "another-begun")
    ]


def _jobs_below(place: str, begun: list[Job]) -> dict[str, Named]:
    """One job is queued, one was cancelled."""
    queued, stopped = begun
    job_cancel(job=stopped, actor=None)
    return {
        f"POST {place}/jobs/{{job_id}}/cancel": {"job_id": queued.pk},
        f"POST {place}/jobs/{{job_id}}/retry": {"job_id": stopped.pk},
        f"POST {place}/jobs/{{job_id}}/requeue": {"job_id": queued.pk},
        f"PUT {place}/jobs/{{job_id}}/priority": {"job_id": queued.pk, "priority": "high"},
    }


def _archives(world: World, own: Version, files: TinyFiles) -> Special:
    adapter = {
        "archive": zip_of(lora_members(files.root)),
        "name": "theirs",
        "parent": world.domain.pk,
        "labels": ["no", "perhaps", "yes"],
    }
    return {
        "POST /import": {"archive": zipped(world.hplm), "name": "brought", "parent": world.domain.pk},
        "POST /platform/import": {"archive": zipped(own), "name": "brought"},
        "POST /import/adapter": adapter,
    }


def _trials(world: World) -> Special:
    """What a version answered; an alias that may go."""
    assert world.hplm.hplm is not None
    answers_keep(world.hplm, label_judge(lambda number: "refund" if number % 9 == 0 else ""))
    alias_move(hplm=world.hplm.hplm, name="spare", version=world.hplm, actor=world.owner)
    return {"DELETE /models/{name}/aliases/{alias}": {"alias": "spare"}, **_canaries(world)}


def _canaries(world: World) -> Special:
    """A second version, two aliases that it is tried for, and one that was moved to it."""
    model = world.hplm.hplm
    assert model is not None
    second = hplm_update(hplm=model, dataset=world.dataset, actor=world.owner, auto_promote=False)
    versions_finish(second, files=nothing_of_use)
    for name in ("promoted", "ended"):
        alias_move(hplm=model, name=name, version=world.hplm, actor=world.owner)
        canary_start(hplm=model, name=name, version=second, percent=5, actor=world.owner)
    for version in (world.hplm, second):
        alias_move(hplm=model, name="moved", version=version, actor=world.owner)
    canary = "/models/{name}/aliases/{alias}/canary"
    return {
        "PATCH /models/{name}/versions/{number}": {"policy": "table"},
        f"PUT {canary}": {"version": second.number},
        f"DELETE {canary}": {"alias": "ended"},
        f"POST {canary}/promote": {"alias": "promoted"},
        "POST /models/{name}/aliases/{alias}/rollback": {"alias": "moved"},
    }


def _batches(world: World) -> Special:
    """One that has ended, with what became of its lines."""
    batches_used(world)
    ended = {"batch_id": Batch.unscoped.get(state=BatchState.COMPLETED).pk}
    return {
        "POST /batches": {"file": b'"good stone"'},
        "DELETE /batches/{batch_id}": ended,
        "GET /batches/{batch_id}/results": ended,
        "GET /batches/{batch_id}/errors": ended,
    }


def _unused(world: World) -> Special:
    """Nothing was made of them."""
    corpus = corpus_upload(
        tenant=world.tenant, name="Unused", stream=corpus_file(4), filename="u.txt", actor=world.owner
    )
    dataset = dataset_upload(
        tenant=world.tenant,
        name="Unused",
        task="classification",
        files={"train": ("unused.jsonl", tickets_file())},
        actor=world.owner,
    )
    return {
        "DELETE /corpora/{corpus_id}": {"corpus_id": corpus.pk},
        "DELETE /datasets/{dataset_id}": {"dataset_id": dataset.pk},
        "POST /datasets/{dataset_id}/corrections": {"corrections": [{"row": 0, "label": None}]},
        "POST /datasets/{dataset_id}/edits": {"changes": [{"split": "train", "row": 1}]},
        "GET /datasets/{dataset_id}/splits/{split}": {"split": "train"},
    }


def _uploads(world: World, actor: Actor) -> Special:
    """One that is here, and one of which nothing has come."""
    here = upload_receive(
        tenant=world.tenant, filename="a.txt", size=len(TEXT), stream=io.BytesIO(TEXT), actor=actor
    )
    begun = upload_create(tenant=world.tenant, filename="b.txt", size=len(TEXT), actor=actor)
    return {
        "POST /checks": {"files": {"file": str(here.pk)}, "store": False},
        "GET /uploads/{upload_id}": {"upload_id": here.pk},
        "DELETE /uploads/{upload_id}": {"upload_id": here.pk},
        "PATCH /uploads/{upload_id}": {"upload_id": begun.pk, "Upload-Offset": "0", "file": TEXT},
    }


def _said(scratch: Path) -> Special:
    """Where fields that are needed are not called required: any of several will do."""
    texts = {"name": "TEXT", "shape": [1], "datatype": "BYTES", "data": ["good stone"]}
    source, corpus = checkpoint(scratch / "published"), _corpus_of_all()
    encoder = {"kind": "encoder", "source": source, "corpus": corpus.pk}
    # Not the root that all else is built on.
    retired = root_register(name="retired", source=source, corpus=corpus, actor=None).root
    return {
        "POST /platform/roots/{name}/retire": {"name": retired.name},
        "POST /platform/roots": encoder,
        "POST /platform/estimate/root": encoder,
        "PATCH /tenants/{tenant}": {"checks_answers": True},
        "PATCH /models/{name}": {"description": "Sorts tickets."},
        "PATCH /members/{member_id}": {"role": "developer"},
        "PATCH /webhooks/{endpoint_id}": {"description": "Told when a job fails."},
        "POST /v2/models/{model}/infer": {"inputs": [texts]},
        "POST /v2/models/{model}/versions/{version}/infer": {"inputs": [texts]},
    }


def _corpus_of_all() -> Corpus:
    return Corpus.unscoped.get(tenant=None)
