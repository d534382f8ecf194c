"""``/api/v1/``: the management API of all apps.

Objects of a tenant have two URLs: ``corpora`` for API keys, which imply the tenant, and
``tenants/<slug>/corpora`` for signed-in users. Objects of the platform are below ``platform/``.
"""

from django.urls import include, path

from inference.batches.api import urls as batches
from tenants.accounts.api import urls as accounts
from tenants.audit.api import AuditView
from tenants.datasets.api import urls as datasets
from tenants.usage.api import RequestsView, UsageView
from tenants.webhooks.api import urls as webhooks
from versiontree.jobs.api import urls as jobs
from versiontree.transfer.api import urls as transfer
from versiontree.tree.api import urls as tree

in_tenant = [
    *datasets.in_tenant,
    *accounts.in_tenant,
    *webhooks.in_tenant,
    *tree.in_tenant,
    *transfer.in_tenant,
    *batches.in_tenant,
    *jobs.in_tenant,
    path("usage", UsageView.as_view()),
    path("requests", RequestsView.as_view()),
    path("audit", AuditView.as_view()),
]
platform = [*datasets.platform, *tree.platform, *transfer.platform, *jobs.platform]
urlpatterns = [
    *accounts.tenants,
    path("platform/", include(platform)),
    path("tenants/<slug:tenant>/", include(in_tenant)),
    path("", include(in_tenant)),
]
