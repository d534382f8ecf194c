"""Names of everything the infer queue keeps in Redis."""

REQUESTS = "hmi:infer:requests"
GROUP = "workers"
FIELD = "message"
REPLIES_PREFIX = "hmi:infer:replies:"
SEEN_PREFIX = "hmi:infer:seen:"
WORKER_PREFIX = "hmi:workers:"


def replies(process: str) -> str:
    """The reply stream of one process that waits for answers."""
    return REPLIES_PREFIX + process


def seen(request_id: str) -> str:
    """The mark that a request was accepted, so that a repeated submission is not a second request."""
    return SEEN_PREFIX + request_id


def worker(name: str) -> str:
    """Heartbeat and status of one inference worker; the key is gone when the worker is."""
    return WORKER_PREFIX + name
