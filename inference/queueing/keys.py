"""Names of everything the infer queue keeps in Redis."""

REQUESTS_PREFIX = "hmi:infer:requests:"
GROUP = "workers"
DEPTHS = "hmi:infer:depths"
"""How many accepted and unanswered requests there are for each root; none for a root that is not named."""
OUTSTANDING = "hmi:infer:outstanding"
"""How many of them each tenant has; by `share`."""
OUTSTANDING_TOKENS = "hmi:infer:outstanding-tokens"
"""The tokens of those; by `share`, and all of a root by its digest."""
BACKGROUND = "+background"
"""Behind a root's digest: the queue of its requests that are computed when no others wait."""
BACKGROUND_DEPTHS = "hmi:infer:background:depths"
BACKGROUND_OUTSTANDING = "hmi:infer:background:outstanding"
BACKGROUND_OUTSTANDING_TOKENS = "hmi:infer:background:outstanding-tokens"
"""The same of the background, which takes no places of the others."""
FIELD = "message"
GENERATED_FIELD = "generated"
REQUEST_FIELD = "request"
TENANT_FIELD = "tenant"
TOKENS_FIELD = "tokens"
SUSPECTS = "hmi:infer:suspects"
"""The entries that a worker computes alone since another one died with them; each as `suspect` names it."""
REPLIES_PREFIX = "hmi:infer:replies:"
GENERATED = ":generated"
"""Behind a reply stream: the stream of the tokens that its process waits for."""
COMPLETION_PREFIX = "hmi:infer:completion:"
CALL_PREFIX = "hmi:infer:call:"
KEPT_PREFIX = "hmi:infer:kept:"
KEPT = "hmi:infer:kept"
"""The answers that are kept, by the time they were given; each with its size."""
KEPT_BYTES = "hmi:infer:kept-bytes"
KEPT_OF_PREFIX = "hmi:infer:kept-of:"
"""Before a tenant's name: its own among the answers that are kept."""
KEPT_BYTES_OF = "hmi:infer:kept-bytes-of"
"""The bytes of each tenant's."""
WORKERS = "hmi:workers"
"""The names of all inference workers; one whose own key is gone is dead."""
WORKER_PREFIX = "hmi:workers:"
SERVED_ROOTS = "hmi:served-roots"
"""The digests of roots that a worker takes requests for, by its last beat."""
ALLOWANCE_PREFIX = "hmi:allowance:"


def requests(root: str) -> str:
    """The stream of requests for models of the root with this digest."""
    return REQUESTS_PREFIX + root


def background(root: str) -> str:
    """The root's queue of what can wait: it stands wherever a root may."""
    return root + BACKGROUND


def is_background(queue: str) -> bool:
    """Whether what lies there can wait."""
    return queue.endswith(BACKGROUND)


def suspect(root: str, entry: str) -> str:
    """An entry of the root's stream among the suspects."""
    return f"{requests(root)} {entry}"


def share(root: str, tenant: str) -> str:
    """The field that counts the outstanding requests of a tenant for one root."""
    return f"{root}:{tenant}"


def replies(process: str) -> str:
    """The reply stream of one process that waits for answers."""
    return REPLIES_PREFIX + process


def generated(reply_stream: str) -> str:
    """The stream of tokens, and of the replies behind them, beside this reply stream: many tokens push no
    other reply out."""
    return reply_stream + GENERATED


def completion(request: str) -> str:
    """The tokens of one request so far: token ``i`` is the entry ``i + 1``, and the reply is the last."""
    return COMPLETION_PREFIX + request


def call(tenant: str, name: str) -> str:
    """Which entry of which stream a tenant's call is: for cancelling it, and so that a repeated submission is
    not a second request."""
    return f"{CALL_PREFIX}{tenant}:{name}"


def kept(tenant: str, key: str) -> str:
    """The answer to a tenant's call with an idempotency key."""
    return f"{KEPT_PREFIX}{tenant}:{key}"


def kept_of(tenant: str) -> str:
    """A tenant's own among the answers that are kept, by time."""
    return KEPT_OF_PREFIX + tenant


def worker(name: str) -> str:
    """Heartbeat and status of one inference worker; the key is gone when the worker is."""
    return WORKER_PREFIX + name


def allowance(bucket: str) -> str:
    """The tokens left in a rate limit's bucket."""
    return ALLOWANCE_PREFIX + bucket
