"""The names of what is there, so that requests find it."""

from tests.e2e.world import World, corpus_file, tickets_file
from tests.integration.contract.known import Known, Special
from tests.integration.routes.places import in_the_tenant, on_the_platform


def named_for_the_tenant(world: World, special: Special) -> Known:
    """Something of everything that a tenant has."""
    return Known(in_the_tenant(world), _fields(world), special)


def named_on_the_platform(world: World, others: Known) -> Known:
    """The same, with what the platform has where both have it."""
    return Known({**others.places, **on_the_platform(world)}, others.fields, others.special)


def _fields(world: World) -> dict[str, object]:
    return {
        "name": "made-here",
        "parent": world.domain.pk,
        "corpus": world.corpus.pk,
        "dataset": world.dataset.pk,
        "version": 1,
        "policy": "full",
        "percent": 5,
        "task": "classification",
        "kind": "corpus",
        "role": "viewer",
        "email": "user@example.org",
        "model": f"{world.tenant.slug}/{world.hplm.name}",
        "inputs": ["good stone"],
        "train": tickets_file().read(),
        "file": corpus_file().read(),
        "url": "https://example.org/hook",
        "kinds": ["job.failed"],
        "input": "good stone",
        "scopes": ["infer"],
        "root": world.root.name,
        "Idempotency-Key": "a-key",
        "Upload-Length": "9",
        "Upload-Offset": "9",
    }
