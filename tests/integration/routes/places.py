"""What stands for the parameters of routes."""

import io

from django.utils import timezone

from inference.batches.services.batches import batch_submit
from tenants.accounts.models import Membership
from tenants.accounts.services.api_keys import api_key_create
from tenants.accounts.services.invitations import invitation_create
from tenants.datasets.models import Corpus
from tenants.datasets.services.checks import check_create
from tenants.datasets.services.files import file_create
from tenants.datasets.services.uploads import upload_receive
from tenants.usage.models import LoggedRequest
from tenants.webhooks.services.endpoints import webhook_create
from tenants.webhooks.services.events import webhook_test
from tests.background import run_background
from tests.e2e.world import World
from tests.integration.versiontree.tree_factory import jobs_in_order
from versiontree.transfer.services.takeouts import takeout_request
from versiontree.tree.services.domains import domain_create
from versiontree.tree.services.fine_tunings import fine_tuning_create


def in_the_tenant(world: World) -> dict[str, object]:
    """Things of the tenant, some of them made for it."""
    return {
        **_built(world),
        **_let_in(world),
        **_uploaded(world),
        **_files(world),
        **_batches(world),
        **_taken_out(world),
        **_told(world),
        **_there_already(world),
    }


def on_the_platform(world: World) -> dict[str, object]:
    """Things of the platform, for routes below `platform/`."""
    return {
        "version_id": world.domain.pk,
        "corpus_id": Corpus.unscoped.get(tenant=None).pk,
        "domains/domain_id": world.domain.domain_id,
        "job_id": jobs_in_order(world.domain)[0].pk,
    }


def _there_already(world: World) -> dict[str, object]:
    job = jobs_in_order(world.hplm)[0].pk
    logged = {
        "tenant": world.tenant,
        "request_id": "one",
        "at": timezone.now(),
        "api": "infer",
        "status": 200,
        "model_name": world.hplm.name,
        "version": world.hplm.number,
        "texts": ["a text"],
    }
    return {
        "requests/pk": LoggedRequest.unscoped.create(**logged).pk,
        "slug": world.tenant.slug,
        "help/name": "concepts",
        "images/name": "tree.png",
        "tenant": world.tenant.slug,
        "corpora/pk": world.corpus.pk,
        "corpus_id": world.corpus.pk,
        "datasets/pk": world.dataset.pk,
        "dataset_id": world.dataset.pk,
        "models/name": world.hplm.name,
        "model": f"{world.tenant.slug}/{world.hplm.name}",
        "version": 1,
        "alias": "default",
        "roots/name": world.root.root.name,
        "number": 1,
        "split": "train",
        "other": 1,
        "versions/pk": world.hplm.pk,
        "version_id": world.hplm.pk,
        "jobs/pk": job,
        "job_id": job,
        "worker": "absent",
        "request_id": "absent",
        "key": "absent",
        "uidb36": "absent",
    }


def _built(world: World) -> dict[str, object]:
    own = domain_create(
        tenant=world.tenant, parent=world.root, name="own", corpus=world.corpus, actor=world.owner
    )
    names = ("domains/pk", "domains/domain_id", "domain/pk")
    return {"kind": "domain", **dict.fromkeys(names, own.domain_id)}


def _let_in(world: World) -> dict[str, object]:
    """By a key, by membership, by an invitation."""
    key, _ = api_key_create(tenant=world.tenant, name="k", scopes=["infer"], created_by=world.owner)
    viewer = Membership.objects.for_tenant(world.tenant).get(user=world.viewer)
    invitation, _ = invitation_create(
        tenant=world.tenant, email="new@example.org", role="viewer", actor=world.owner
    )
    return {
        "prefix": key.prefix,
        **dict.fromkeys(("members/pk", "member_id"), viewer.pk),
        **dict.fromkeys(("invitations/pk", "invitation_id"), invitation.pk),
        "token": "absent",
    }


def _uploaded(world: World) -> dict[str, object]:
    file = io.BytesIO(b'"a text"\n')
    upload = upload_receive(tenant=world.tenant, filename="a.txt", size=9, stream=file, actor=world.owner)
    check = check_create(
        tenant=world.tenant, kind="corpus", files={"file": upload}, actor=world.owner, store=False
    )
    return {
        **dict.fromkeys(("uploads/pk", "upload_id"), upload.pk),
        **dict.fromkeys(("checks/pk", "check_id"), check.pk),
    }


def _files(world: World) -> dict[str, object]:
    """One that a fine-tuning uses, and one that nothing uses."""
    rows, unused = (
        file_create(
            tenant=world.tenant,
            purpose="fine-tune",
            filename=f"{name}.jsonl",
            stream=io.BytesIO(content),
            actor=world.owner,
        )
        for name, content in (("rows", b"{}"), ("unused", b'{"text": "a text", "label": "a"}'))
    )
    tuning = fine_tuning_create(
        tenant=world.tenant, model=str(world.root.root), training_file=rows.pk, actor=world.owner
    )
    return {
        "file_id": f"file-{unused.pk.hex}",
        "fine_tuning_id": f"ftjob-{tuning.pk.hex}",
        "fine_tuning_key": tuning.pk.hex,
    }


def _batches(world: World) -> dict[str, object]:
    batch = batch_submit(
        tenant=world.tenant,
        model=world.hplm.name,
        filename="in.jsonl",
        stream=io.BytesIO(b'"text"'),
        actor=world.owner,
    )
    return {"batch_key": f"batch-{batch.pk.hex}", **dict.fromkeys(("batches/pk", "batch_id"), batch.pk)}


def _taken_out(world: World) -> dict[str, object]:
    takeout = takeout_request(tenant=world.tenant, actor=world.owner)
    run_background(takeout.pk)
    return dict.fromkeys(("export/pk", "takeout_id"), takeout.pk)


def _told(world: World) -> dict[str, object]:
    endpoint, _ = webhook_create(
        tenant=world.tenant, url="https://example.org/", kinds=["job.failed"], actor=world.owner
    )
    return {"endpoint_id": endpoint.pk, "delivery_id": webhook_test(endpoint=endpoint, actor=world.owner).pk}
