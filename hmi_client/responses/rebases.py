"""Models on a newer version of their domain or root."""

from dataclasses import dataclass

from hmi_client.responses.models import Version


@dataclass(frozen=True, slots=True)
class RebaseOffer:
    """A model whose domain or root has a newer version, ``onto``. ``version`` is that of its alias `default`,
    which stands on ``base``. ``problem`` says why it cannot be rebased; empty if it can."""

    model: str
    version: int
    base: str
    onto: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class RefusedRebase:
    """A model that was not rebased, and why."""

    model: str
    code: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Rebases:
    """The new versions of the models on a domain, and the models that were not rebased."""

    versions: tuple[Version, ...] = ()
    refused: tuple[RefusedRebase, ...] = ()
