"""Errors of the version tree that callers catch by name."""

from tenants.base.errors import ErrorCode, HmiError


class LeaseLost(HmiError):
    """The job is no longer this worker's: its lease ran out, or somebody ended the job."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.LEASE_LOST, "The worker lost its lease on this job.")
