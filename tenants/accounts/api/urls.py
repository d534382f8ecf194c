"""``/api/v1/``: tenants, their people and keys."""

from django.urls import path

from tenants.accounts.api.api_keys import ApiKeyRotateView, ApiKeysView, ApiKeyView
from tenants.accounts.api.invitations import InvitationResendView, InvitationsView, InvitationView
from tenants.accounts.api.members import MembersView, MemberView
from tenants.accounts.api.tenants import TenantDetailView, TenantsView

in_tenant = [
    path("api-keys", ApiKeysView.as_view()),
    path("api-keys/<str:prefix>", ApiKeyView.as_view()),
    path("api-keys/<str:prefix>/rotate", ApiKeyRotateView.as_view()),
    path("members", MembersView.as_view()),
    path("members/<int:member_id>", MemberView.as_view()),
    path("invitations", InvitationsView.as_view()),
    path("invitations/<int:invitation_id>", InvitationView.as_view()),
    path("invitations/<int:invitation_id>/resend", InvitationResendView.as_view()),
]
tenants = [
    path("tenants", TenantsView.as_view()),
    path("tenants/<slug:tenant>", TenantDetailView.as_view()),
]
