"""One of everything that has a page or an address of its own, for the parameters of routes.

Imported once Django knows its settings.
"""

import io

from inference.batches.services.batches import batch_submit
from tenants.accounts.models import Membership, Tenant, User
from tenants.accounts.services.api_keys import api_key_create
from tenants.accounts.services.invitations import invitation_create
from tenants.datasets.services.checks import check_create
from tenants.datasets.services.uploads import upload_receive
from tenants.webhooks.services.endpoints import webhook_create
from tenants.webhooks.services.events import webhook_test
from versiontree.transfer.services.takeouts import takeout_request


def one_of_each(tenant: Tenant, owner: User, hplm: str) -> dict[str, object]:
    """What nothing of has been made yet: by the name of the parameter, with what stands before it where that
    tells more."""
    member = Membership.objects.for_tenant(tenant).get(user=owner)
    key, _ = api_key_create(tenant=tenant, name="of the pages", scopes=["infer"], created_by=owner)
    invited, _ = invitation_create(tenant=tenant, email="new@example.org", role="viewer", actor=owner)
    text = io.BytesIO(b"some text")
    upload = upload_receive(tenant=tenant, filename="a.txt", size=9, stream=text, actor=owner)
    check = check_create(tenant=tenant, kind="corpus", files={"file": upload}, actor=owner, store=False)
    batch = batch_submit(
        tenant=tenant, model=hplm, filename="in.jsonl", stream=io.BytesIO(b'"text"'), actor=owner
    )
    takeout = takeout_request(tenant=tenant, actor=owner)
    told, _ = webhook_create(tenant=tenant, url="https://example.org/", kinds=["job.failed"], actor=owner)
    return {
        "prefix": key.prefix,
        "alias": "default",
        "endpoint_id": told.pk,
        "delivery_id": webhook_test(endpoint=told, actor=owner).pk,
        **dict.fromkeys(("members/pk", "member_id"), member.pk),
        **dict.fromkeys(("invitations/pk", "invitation_id"), invited.pk),
        **dict.fromkeys(("uploads/pk", "upload_id"), upload.pk),
        **dict.fromkeys(("checks/pk", "check_id"), check.pk),
        **dict.fromkeys(("batches/pk", "batch_id"), batch.pk),
        **dict.fromkeys(("export/pk", "takeout_id"), takeout.pk),
    }
