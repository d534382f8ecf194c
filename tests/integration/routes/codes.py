"""What each person gets from a route."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Codes:
    """The status for nobody, for an owner of another tenant, for the three roles in the tenant, and for
    staff, who belong to no tenant.
    """

    anonymous: int
    stranger: int
    viewer: int
    developer: int
    owner: int
    admin: int


def everybody(code: int) -> Codes:
    """Open to all."""
    return Codes(code, code, code, code, code, code)


def signed_in(code: int) -> Codes:
    """A page of one's own: nobody is led to sign in."""
    return Codes(302, code, code, code, code, code)


def staff(code: int, *, others: int, anonymous: int) -> Codes:
    """For those who run the platform."""
    return Codes(anonymous, others, others, others, others, code)


def page(code: int = 200) -> Codes:
    """A page that every member of the tenant sees."""
    return Codes(302, 404, code, code, code, 404)


def work(code: int = 200) -> Codes:
    """A page or button of those who may work in the tenant."""
    return Codes(302, 404, 403, code, code, 404)


def own(code: int = 200) -> Codes:
    """A page or button of the tenant's owners."""
    return Codes(302, 404, 403, 403, code, 404)


def read(code: int = 200) -> Codes:
    """The API: what every member of the tenant may ask."""
    return Codes(401, 404, code, code, code, 404)


def write(code: int) -> Codes:
    """The API: what those may do who work in the tenant."""
    return Codes(401, 404, 403, code, code, 404)


def rule(code: int) -> Codes:
    """The API: what the tenant's owners may do."""
    return Codes(401, 404, 403, 403, code, 404)


def run(code: int = 200) -> Codes:
    """The API: what staff do for the platform."""
    return staff(code, others=403, anonymous=401)
