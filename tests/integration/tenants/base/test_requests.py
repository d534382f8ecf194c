"""Requests see what they should, also through views that forget to ask for it."""

from uuid import uuid4

import pytest
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.test import Client
from django.urls import include, path
from pytest_django import Settings
from rest_framework.request import Request
from rest_framework.response import Response

from frontend.access import TenantRequest, tenant_member_required
from tenants.accounts.api.access import StaffOnly, TenantView
from tenants.accounts.models import Membership, Tenant
from tenants.accounts.selectors import tenants_of
from tenants.accounts.services.api_keys import api_key_create
from tenants.audit.models import AuditEvent
from tenants.base.scope import PLATFORM_SCOPE, current_scope, empty_scope
from tenants.datasets.models import Corpus
from tenants.datasets.services.corpora import corpus_upload
from tenants.usage.models import UsageDay
from tenants.usage.services.usage import usage_record
from tests.e2e.world import World, corpus_file
from versiontree.jobs.models import Job
from versiontree.jobs.selectors import job_revisions, queue_positions
from versiontree.tree.serving_manifest import manifest_content, manifest_publish


def everything() -> dict[str, list[str]]:
    """What somebody would answer who forgets whose request it is."""
    return {
        "corpora": sorted(Corpus.unscoped.values_list("name", flat=True)),
        "members": sorted(Membership.unscoped.values_list("user__username", flat=True)),
    }


def careless(request: HttpRequest) -> HttpResponse:
    return JsonResponse(everything())


@tenant_member_required()
def careless_page(request: TenantRequest) -> HttpResponse:
    return JsonResponse(everything())


class Careless(TenantView):
    def get(self, request: Request, **_: object) -> Response:
        return Response(everything())


class OfStaff(Careless):
    permission_classes = [StaffOnly]
    permissions = {"GET": ("datasets.view_corpus",)}


urlpatterns = [
    path("careless/", careless),
    path("t/<slug:slug>/careless/", careless_page),
    path("api/v1/careless", Careless.as_view()),
    path("api/v1/platform/careless", OfStaff.as_view()),
    path("", include("hmi_site.urls")),
]
OWN = {"corpora": ["Leaflets", "Plain English"], "members": ["dev", "olga", "victor"]}
NONE: dict[str, list[str]] = {"corpora": [], "members": []}


@pytest.fixture
def careless_site(settings: Settings, world: World) -> World:
    """One whose views forget. Another tenant has a corpus as well."""
    settings.ROOT_URLCONF = __name__
    corpus_upload(tenant=umbra(), name="Secret", stream=corpus_file(), filename="s.txt", actor=world.stranger)
    return world


def umbra() -> Tenant:
    return Tenant.objects.get(slug="umbra")


def test_a_view_that_forgets_its_tenant_tells_of_no_other(careless_site: World) -> None:
    client, stranger, staff = Client(), Client(), Client()
    client.force_login(careless_site.developer)
    stranger.force_login(careless_site.stranger)
    staff.force_login(careless_site.admin)
    key = api_key_create(tenant=careless_site.tenant, name="k", scopes=["manage"], created_by=None)[1]
    others = {"corpora": ["Plain English", "Secret"], "members": ["sam"]}
    for _ in range(2):  # one after another, over one connection
        assert client.get("/t/acme/careless/").json() == OWN
        assert client.get("/careless/").json() == NONE
        assert stranger.get("/t/umbra/careless/").json() == others
        assert stranger.get("/t/acme/careless/").status_code == 404
        assert stranger.get("/api/v1/careless?tenant=umbra").json() == others
        assert Client().get("/api/v1/careless", HTTP_X_API_KEY=key).json() == OWN
        assert staff.get("/careless/").json() == NONE
        assert staff.get("/api/v1/platform/careless").json()["members"] == ["dev", "olga", "sam", "victor"]
        assert client.get("/api/v1/platform/careless").status_code == 403
    assert current_scope() == PLATFORM_SCOPE, "that of the test, as before"


def test_what_looks_across_tenants_does_so_from_nobodys_scope(world: World) -> None:
    job = Job.unscoped.filter(version=world.hplm).latest("created_at")
    with empty_scope():
        assert [tenant.slug for tenant in tenants_of(world.owner)] == ["acme"]
        assert list(job_revisions([job.pk, uuid4()])) == [job.pk]
        assert queue_positions([job]) == {}
        usage_record(tenant=world.tenant, model_name="triage", inputs=1, tokens=1)
        assert UsageDay.unscoped.count() == 0
    assert sum(UsageDay.unscoped.values_list("requests", flat=True)) == 4


def test_what_a_tenant_does_with_something_of_the_platforms_is_noted_for_the_platform(world: World) -> None:
    client = Client()
    client.force_login(world.developer)
    answer = client.get(f"/t/acme/versions/{world.domain.pk}/export/")
    assert answer.status_code == 200
    event = AuditEvent.unscoped.get(verb="version.export")
    assert (event.tenant, event.actor) == (None, world.developer)


def test_the_manifest_names_all_tenants_models_whoever_makes_it_change(world: World) -> None:
    whole = manifest_content()
    assert whole["hplms"]
    with empty_scope():
        manifest_publish()
        assert manifest_content()["hplms"] == {}
