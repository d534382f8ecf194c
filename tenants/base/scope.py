"""The tenant scope: which rows PostgreSQL shows to a connection: none, one tenant's, or all.

This is the second guard behind the managers that fail closed (``tenants.base.managers``). Row-level security
policies (``tenants.base.row_security``) compare each row with the connection's scope. A query that forgets to
filter by tenant sees only that tenant's rows; without a scope it sees none.

The scope is a context variable, and it is copied to the connection before each statement. The connection
stores it as ``application_name``, because PostgreSQL reports every change of that setting: the value is known
without a query, even after a rollback or behind a pooler, and it shows up in ``pg_stat_activity``.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.pq import TransactionStatus

EMPTY_SCOPE: Final = "hmi"
PLATFORM_SCOPE: Final = "hmi platform"
TENANT_SCOPE_PREFIX: Final = "hmi tenant "
"""Followed by the tenant's id."""

_PARAMETER: Final = b"application_name"
_SET_SCOPE: Final = "SELECT set_config('application_name', %s, false)"

_scope: ContextVar[str | None] = ContextVar("scope", default=None)
_process_scope = EMPTY_SCOPE


def current_scope() -> str:
    """Return the scope of the next statement."""
    scope = _scope.get()
    return _process_scope if scope is None else scope


@contextmanager
def tenant_scope(tenant: models.Model) -> Iterator[None]:
    """Show and change only this tenant's rows in the block, and read the platform's shared rows."""
    with _set_scope(_tenant_scope(tenant)):
        yield


@contextmanager
def platform_scope() -> Iterator[None]:
    """Show all rows in the block: for work across tenants, or before the caller is known.

    ``tests/integration/tenants/base/test_platform_scope.py`` lists the modules that may use it.
    """
    with _set_scope(PLATFORM_SCOPE):
        yield


@contextmanager
def empty_scope() -> Iterator[None]:
    """Show no rows until the code in the block enters a scope, which ends with the block. Each request is
    handled in one."""
    with _set_scope(EMPTY_SCOPE):
        yield


def enter_tenant(tenant: models.Model) -> None:
    """Use the tenant's scope for the rest of the request."""
    _scope.set(_tenant_scope(tenant))


def enter_platform() -> None:
    """Use the platform's scope for the rest of the request, once staff are authorized."""
    _scope.set(PLATFORM_SCOPE)


def use_platform_scope() -> None:
    """Make the platform's scope the default of this process in all its threads: for commands and workers."""
    global _process_scope
    _process_scope = PLATFORM_SCOPE


def install_scope_wrapper(connection: BaseDatabaseWrapper, **_: Any) -> None:
    """Run all statements of a new connection in the current scope (a ``connection_created`` receiver)."""
    if _execute_in_scope not in connection.execute_wrappers:
        connection.execute_wrappers.insert(0, _execute_in_scope)


def _execute_in_scope(
    execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]
) -> Any:
    _synchronize(context["connection"])
    return execute(sql, params, many, context)


def _synchronize(connection: BaseDatabaseWrapper) -> None:
    """Give the connection the current scope, without Django's cursors: it must not count as a query."""
    scope = current_scope()
    raw: Any = connection.connection
    if raw.pgconn.parameter_status(_PARAMETER) == scope.encode():
        return
    if raw.pgconn.transaction_status == TransactionStatus.INERROR:
        return  # no statement can run before the rollback
    with connection.wrap_database_errors:
        raw.execute(_SET_SCOPE, (scope,))


def _tenant_scope(tenant: models.Model) -> str:
    if tenant.pk is None:
        raise ValueError("a tenant that is not saved has no scope")
    return f"{TENANT_SCOPE_PREFIX}{tenant.pk}"


@contextmanager
def _set_scope(scope: str) -> Iterator[None]:
    before = _scope.get()
    _scope.set(scope)
    try:
        yield
    finally:
        # Not by a token: Django may end a request in another context than it began it in.
        _scope.set(before)
