"""``/api/v1/``: tenants, their uploads and keys.

What belongs to a tenant stands at two addresses: ``corpora`` for keys, which know their tenant, and
``tenants/<slug>/corpora`` for people, who name it.
"""

from django.urls import include, path

from tenants.api.audit import AuditView
from tenants.api.checks import ChecksView, CheckView
from tenants.api.corpora import CorporaView, CorpusPreviewView, CorpusView, PlatformCorporaView
from tenants.api.datasets import DatasetPreviewView, DatasetsView, DatasetView
from tenants.api.invitations import InvitationResendView, InvitationsView, InvitationView
from tenants.api.keys import ApiKeyRotateView, ApiKeysView, ApiKeyView
from tenants.api.members import MembersView, MemberView
from tenants.api.takeouts import TakeoutFileView, TakeoutsView, TakeoutView
from tenants.api.uploads import UploadsView, UploadView
from tenants.api.usage import UsageView
from tenants.api.webhooks import (
    DeliveriesView,
    DeliveryView,
    ReplayView,
    WebhookRotateView,
    WebhooksView,
    WebhookTestView,
    WebhookView,
)
from tenants.api.who import TenantDetailView, TenantsView

in_a_tenant = [
    path("corpora", CorporaView.as_view()),
    path("corpora/preview", CorpusPreviewView.as_view()),
    path("corpora/<int:corpus_id>", CorpusView.as_view()),
    path("datasets", DatasetsView.as_view()),
    path("datasets/preview", DatasetPreviewView.as_view()),
    path("datasets/<int:dataset_id>", DatasetView.as_view()),
    path("uploads", UploadsView.as_view()),
    path("uploads/<uuid:upload_id>", UploadView.as_view()),
    path("checks", ChecksView.as_view()),
    path("checks/<uuid:check_id>", CheckView.as_view()),
    path("api-keys", ApiKeysView.as_view()),
    path("api-keys/<str:prefix>", ApiKeyView.as_view()),
    path("api-keys/<str:prefix>/rotate", ApiKeyRotateView.as_view()),
    path("members", MembersView.as_view()),
    path("members/<int:member_id>", MemberView.as_view()),
    path("invitations", InvitationsView.as_view()),
    path("invitations/<int:invitation_id>", InvitationView.as_view()),
    path("invitations/<int:invitation_id>/resend", InvitationResendView.as_view()),
    path("takeouts", TakeoutsView.as_view()),
    path("takeouts/<uuid:takeout_id>", TakeoutView.as_view()),
    path("takeouts/<uuid:takeout_id>/file", TakeoutFileView.as_view()),
    path("usage", UsageView.as_view()),
    path("audit", AuditView.as_view()),
    path("webhooks", WebhooksView.as_view()),
    path("webhooks/<uuid:endpoint_id>", WebhookView.as_view()),
    path("webhooks/<uuid:endpoint_id>/rotate", WebhookRotateView.as_view()),
    path("webhooks/<uuid:endpoint_id>/test", WebhookTestView.as_view()),
    path("webhooks/<uuid:endpoint_id>/deliveries", DeliveriesView.as_view()),
    path("webhooks/<uuid:endpoint_id>/deliveries/<uuid:delivery_id>", DeliveryView.as_view()),
    path("webhooks/<uuid:endpoint_id>/deliveries/<uuid:delivery_id>/replay", ReplayView.as_view()),
]

urlpatterns = [
    path("tenants", TenantsView.as_view()),
    path("tenants/<slug:tenant>", TenantDetailView.as_view()),
    path("tenants/<slug:tenant>/", include(in_a_tenant)),
    path("platform/corpora", PlatformCorporaView.as_view()),
    path("", include(in_a_tenant)),
]
