"""Names of everything the infer queue keeps in Redis."""

REQUESTS = "hmi:infer:requests"
GROUP = "workers"
OUTSTANDING = "hmi:infer:outstanding"
"""How many accepted and unanswered requests each tenant has."""
FIELD = "message"
TENANT_FIELD = "tenant"
REPLIES_PREFIX = "hmi:infer:replies:"
SEEN_PREFIX = "hmi:infer:seen:"
WORKER_PREFIX = "hmi:workers:"
MISSES_PREFIX = "hmi:misses:"


def replies(process: str) -> str:
    """The reply stream of one process that waits for answers."""
    return REPLIES_PREFIX + process


def seen(request_id: str) -> str:
    """The mark that a request was accepted, so that a repeated submission is not a second request."""
    return SEEN_PREFIX + request_id


def worker(name: str) -> str:
    """Heartbeat and status of one inference worker; the key is gone when the worker is."""
    return WORKER_PREFIX + name


def misses(table: str, tenant: str) -> str:
    """How often a tenant's traffic missed which fragment in the chain that begins with ``table``."""
    return f"{MISSES_PREFIX}{table}:{tenant}"


def missing_tenants(table: str) -> str:
    """The tenants for whom there is such a count."""
    return MISSES_PREFIX + table
