"""Errors of the version tree that callers catch by name."""

from tenants.base.errors import ErrorCode, HmiError


def not_found(what: str, *, param: str | None = None) -> HmiError:
    """The same words whether the thing is absent or somebody else's."""
    return HmiError(ErrorCode.NOT_FOUND, f"There is no such {what}.", param=param)
