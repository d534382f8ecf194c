"""The roots that tenants call by their names, as they call their models."""

from django.db.models import QuerySet

from tenants.accounts.models import Tenant
from tenants.datasets.models import Task
from versiontree.jobs.models import JobKind
from versiontree.tree.models import Hplm, RootKind, Version
from versiontree.tree.models.version import VersionKind, VersionState


def callable_root_versions() -> QuerySet[Version]:
    """The newest ready version of each root that can be called, with its root, by the root's name."""
    rows = Version.unscoped.filter(kind=VersionKind.ROOT, state=VersionState.READY)
    usable = rows.filter(root__is_callable=True, root__retired_at=None).select_related("root")
    return usable.order_by("root__name", "-number").distinct("root__name")


def callable_root_versions_for(tenant: Tenant) -> QuerySet[Version]:
    """The same, without those whose name means one of the tenant's models."""
    own = Hplm.objects.for_tenant(tenant).filter(deleted_at=None)
    return callable_root_versions().exclude(root__name__in=own.values("name"))


def base_task(version: Version) -> Task:
    """What the version of a root answers: chats and prompts; prompts alone, if its checkpoint has no chat
    template; or texts, with their embeddings."""
    if version.root.kind == RootKind.ENCODER:
        return Task.EMBEDDING
    report = version.metrics.get(JobKind.CONVERT) or {}
    return Task.CHAT if report.get("chat_template", True) else Task.GENERATION
