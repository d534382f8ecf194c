"""The connection has the scope of the code that uses it, whatever became of it before."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import deepcopy

import pytest
from django.db import DatabaseError, connection, transaction
from django.db.backends.postgresql.base import DatabaseWrapper
from django.db.transaction import Atomic
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenants.accounts.models import Membership, Tenant
from tenants.accounts.services.tenants import tenant_create
from tenants.base import scope
from tenants.base.scope import EMPTY_SCOPE, current_scope, empty_scope, platform_scope, tenant_scope
from tenants.datasets.models import Corpus

ALL = ["acme", "globex"]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def tenants(transactional_db: None) -> dict[str, Tenant]:
    """Committed, so that every connection could see them."""
    return {slug: tenant_create(slug=slug, name=slug.title()) for slug in ALL}


def seen() -> list[str]:
    """The tenants that a query finds which names none."""
    return list(Tenant.objects.order_by("slug").values_list("slug", flat=True))


def test_a_query_that_forgets_its_tenant_finds_and_changes_only_that_tenants_rows(
    tenants: dict[str, Tenant],
) -> None:
    acme, globex = tenants["acme"], tenants["globex"]
    with tenant_scope(acme):
        assert seen() == ["acme"]
        assert Tenant.objects.update(name="Mine") == 1
        assert Tenant.objects.filter(pk=globex.pk).delete()[0] == 0
        with pytest.raises(DatabaseError, match="row-level security"), transaction.atomic():
            Corpus.unscoped.create(tenant=globex, name="c", sha256="a" * 64, size_bytes=1, rows=1, words=1)
    globex.refresh_from_db()
    assert globex.name == "Globex"


def test_scopes_nest_and_end_with_their_block(tenants: dict[str, Tenant]) -> None:
    with empty_scope():
        assert seen() == []
        with tenant_scope(tenants["globex"]):
            with platform_scope():
                assert seen() == ALL
            assert seen() == ["globex"]
            with pytest.raises(ValueError), platform_scope():
                int("an error")
            assert seen() == ["globex"]
        assert seen() == []
        with pytest.raises(DatabaseError, match="row-level security"):
            Tenant.objects.create(slug="initech", name="Initech")


def test_a_tenant_that_is_not_saved_has_no_scope() -> None:
    with pytest.raises(ValueError, match="not saved"), tenant_scope(Tenant(slug="unsaved")):
        pass


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.sampled_from([*ALL, "platform", "nobody", "begin", "commit", "roll back", "close", "spoil"]),
        max_size=20,
    )
)
def test_whatever_is_rolled_back_committed_or_closed_a_query_runs_in_its_own_scope(
    tenants: dict[str, Tenant], steps: list[str]
) -> None:
    sees = {"acme": ["acme"], "globex": ["globex"], "platform": ALL, "nobody": []}
    blocks: list[Atomic] = []
    name = "platform"
    try:
        for step in steps:
            if step in sees:
                name = step
            elif step == "begin":
                blocks.append(transaction.atomic())
                blocks[-1].__enter__()
            elif step == "close" and not blocks:
                connection.close()
            elif step == "spoil":
                with connection.cursor() as cursor:
                    cursor.execute("SET LOCAL application_name = 'something else'")
            elif step in {"commit", "roll back"} and blocks:
                end(blocks, back=step == "roll back")
            with scope_called(name, tenants):
                assert seen() == sees[name]
    finally:
        while blocks:
            end(blocks, back=True)


def end(blocks: list[Atomic], *, back: bool) -> None:
    """Leave the innermost block."""
    if back:
        transaction.set_rollback(True)
    blocks.pop().__exit__(None, None, None)


@contextmanager
def scope_called(name: str, tenants: dict[str, Tenant]) -> Iterator[None]:
    """By its name."""
    if name in tenants:
        with tenant_scope(tenants[name]):
            yield
    else:
        with platform_scope() if name == "platform" else empty_scope():
            yield


def test_a_connection_of_a_pool_keeps_nothing_for_the_next_who_takes_it(tenants: dict[str, Tenant]) -> None:
    told = deepcopy(connection.settings_dict)
    told["OPTIONS"]["pool"] = {"min_size": 1, "max_size": 1}
    pooled = DatabaseWrapper(told, alias="pooled")
    backends = set()
    try:
        for name, expected in [("acme", 1), ("globex", 1), ("nobody", 0), ("platform", 2), ("nobody", 0)]:
            with scope_called(name, tenants), pooled.cursor() as cursor:
                cursor.execute("SELECT count(*), pg_backend_pid() FROM accounts_tenant")
                count, backend = cursor.fetchone()
                assert count == expected, name
                backends.add(backend)
            pooled.close()
        assert len(backends) == 1, "it was one connection all the time"
    finally:
        pooled.close_pool()


def test_a_thread_has_the_scope_of_its_process_and_that_is_none_by_itself(
    tenants: dict[str, Tenant], monkeypatch: pytest.MonkeyPatch
) -> None:
    def elsewhere() -> tuple[str, list[str]]:
        try:
            return current_scope(), seen()
        finally:
            connection.close()

    with tenant_scope(tenants["acme"]), ThreadPoolExecutor(1) as pool:
        assert pool.submit(elsewhere).result() == (scope.PLATFORM_SCOPE, ALL)
        monkeypatch.setattr(scope, "_process_scope", EMPTY_SCOPE)
        assert pool.submit(elsewhere).result() == (EMPTY_SCOPE, [])
        assert seen() == ["acme"]


def test_what_follows_the_scope_is_no_query_of_anybodys(tenants: dict[str, Tenant]) -> None:
    with CaptureQueriesContext(connection) as queries:
        for tenant in tenants.values():
            with tenant_scope(tenant):
                assert not Membership.unscoped.exists()
    assert len(queries) == 2


def test_in_a_transaction_that_failed_the_error_is_djangos_own(tenants: dict[str, Tenant]) -> None:
    with transaction.atomic():
        with pytest.raises(DatabaseError):
            Tenant.objects.create(slug="acme", name="Again")
        with tenant_scope(tenants["acme"]), pytest.raises(transaction.TransactionManagementError):
            seen()
        transaction.set_rollback(True)
