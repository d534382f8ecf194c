"""Errors of the version tree that callers catch by name."""

from tenants.errors import ErrorCode, HmiError


class LeaseLost(HmiError):
    """The job is no longer this worker's: its lease ran out, or somebody ended the job."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.LEASE_LOST, "The worker lost its lease on this job.")


def not_found(what: str, *, param: str | None = None) -> HmiError:
    """The same words whether the thing is absent or somebody else's."""
    return HmiError(ErrorCode.NOT_FOUND, f"There is no such {what}.", param=param)
