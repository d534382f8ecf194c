"""A tenant's weight, as staff set it in the admin."""

import pytest
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse

from tenants.accounts.models import Tenant
from tenants.accounts.services.tenants import tenant_set_weight
from tenants.audit.models import AuditEvent
from tenants.base.errors import HmiError
from tests.integration.world import World

pytestmark = pytest.mark.usefixtures("in_acme_scope")

OUT_OF_RANGE = [-1.0, 0.001, 100.5, float("inf"), float("nan")]


def saved(world: World, weight: str) -> Tenant:
    """The tenant, after staff has typed this weight into its form."""
    client = Client()
    client.force_login(world.staff)
    inlines = {
        f"{name}-{part}_FORMS": "0" for name in ("quota", "memberships") for part in ("TOTAL", "INITIAL")
    }
    form = {
        "name": "Acme",
        "weight": weight,
        "checks_answers": "on",
        **inlines,
    }
    client.post(reverse("admin:accounts_tenant_change", args=[world.tenant.pk]), form)
    return Tenant.objects.get(pk=world.tenant.pk)


def test_staff_sets_it_in_the_form_and_that_is_on_record(world: World) -> None:
    assert saved(world, "2.5").weight == 2.5
    event = AuditEvent.objects.for_tenant(world.tenant).get(verb="tenant.set_weight")
    assert (event.actor, event.detail) == (world.staff, {"weight": 2.5})


@pytest.mark.parametrize("weight", ["0", "nan", ""])
def test_an_invalid_weight_is_refused_by_the_form(world: World, weight: str) -> None:
    assert saved(world, weight).weight == 1.0
    assert not AuditEvent.objects.for_tenant(world.tenant).filter(verb="tenant.set_weight").exists()


@pytest.mark.parametrize("weight", OUT_OF_RANGE)
def test_a_weight_out_of_range_is_refused_below_the_form_too(world: World, weight: float) -> None:
    with pytest.raises(HmiError, match=r"from 0\.01 to 100"):
        tenant_set_weight(tenant=world.tenant, weight=weight, actor=None)
    with pytest.raises(IntegrityError), transaction.atomic():
        Tenant.objects.filter(pk=world.tenant.pk).update(weight=weight)
