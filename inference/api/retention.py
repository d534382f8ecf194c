"""Deletes prompts and answers from Redis (see `inference.queueing.retention`)."""

from django.conf import settings

from inference.queueing import retention
from inference.queueing.connection import connect
from tenants.accounts.models import Tenant


def tenant_erase(tenant: Tenant) -> None:
    """Delete the requests and answers of a tenant from Redis, and from the file of the embedded Valkey.

    Raises RedisError, for the deletion to try again later.
    """
    with connect(settings.REDIS_URL) as redis:
        retention.tenant_forget(redis, tenant.slug)
        if settings.HMI_EMBEDDED_REDIS:
            retention.rewrite(redis)


def append_only_file_rewrite() -> None:
    """Begin to rewrite the file of the embedded Valkey. The operator looks after an external Redis."""
    if settings.HMI_EMBEDDED_REDIS:
        with connect(settings.REDIS_URL) as redis:
            retention.rewrite_begin(redis)
