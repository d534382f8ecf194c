"""Whose rows PostgreSQL shows: nobody's, one tenant's, or all of the platform.

The second wall behind the managers that fail closed (``tenants.base.managers``): policies of PostgreSQL
(``tenants.base.row_security``) compare each row with the *scope* of the connection, so a query that forgets
to name its tenant finds that tenant's rows and no others; without a scope it finds none.

The scope lives in a context variable, and before each statement the connection is made to have the same. It
is the session's ``application_name``, because that is a setting that the server reports whenever it changes:
what a connection has is known without asking, also after a roll-back that took it back, behind a pooler, and
in the server's own list of sessions, where it says for whom a query runs.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.pq import TransactionStatus

NOTHING: Final = "hmi"
PLATFORM: Final = "hmi platform"
TENANT: Final = "hmi tenant "
"""With the tenant's id behind it."""

_REPORTED: Final = b"application_name"
_SET: Final = "SELECT set_config('application_name', %s, false)"

_scope: ContextVar[str | None] = ContextVar("scope", default=None)
_scope_of_process = NOTHING


def scope_now() -> str:
    """What the next statement runs in."""
    scope = _scope.get()
    return _scope_of_process if scope is None else scope


@contextmanager
def tenant_scope(tenant: models.Model) -> Iterator[None]:
    """In here the tenant's rows are to be seen and changed, and those of the platform that all may read."""
    with _held(_of(tenant)):
        yield


@contextmanager
def platform_scope() -> Iterator[None]:
    """In here all rows are. For what must look across tenants, or before it is known who asks; a test lists
    who may (``tests/integration/scope/test_doors.py``)."""
    with _held(PLATFORM):
        yield


@contextmanager
def nobodys_scope() -> Iterator[None]:
    """In here nothing is to be seen until somebody enters a scope, which ends with the block. Each request is
    answered in one."""
    with _held(NOTHING):
        yield


def enter_tenant(tenant: models.Model) -> None:
    """The rest of the request is this tenant's."""
    _scope.set(_of(tenant))


def enter_platform() -> None:
    """The rest of the request is that of staff, who were let in."""
    _scope.set(PLATFORM)


def process_of_platform() -> None:
    """This process works for all tenants, in all its threads: a command, a Celery worker."""
    global _scope_of_process
    _scope_of_process = PLATFORM


def follow_scope(connection: BaseDatabaseWrapper, **_: Any) -> None:
    """Have all statements of a new connection run in the scope of their time (``connection_created``)."""
    if _in_scope not in connection.execute_wrappers:
        connection.execute_wrappers.insert(0, _in_scope)


def _in_scope(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
    _align(context["connection"])
    return execute(sql, params, many, context)


def _align(connection: BaseDatabaseWrapper) -> None:
    """Past Django's cursors: this is no query of anybody's, and is not to be counted as one."""
    scope = scope_now()
    raw: Any = connection.connection
    if raw.pgconn.parameter_status(_REPORTED) == scope.encode():
        return
    if raw.pgconn.transaction_status == TransactionStatus.INERROR:
        return  # nothing runs until the roll-back
    with connection.wrap_database_errors:
        raw.execute(_SET, (scope,))


def _of(tenant: models.Model) -> str:
    if tenant.pk is None:
        raise ValueError("a tenant that is not saved has no scope")
    return f"{TENANT}{tenant.pk}"


@contextmanager
def _held(scope: str) -> Iterator[None]:
    before = _scope.get()
    _scope.set(scope)
    try:
        yield
    finally:
        # Not by a token: Django may end a request in another context than it began it in.
        _scope.set(before)
