"""Models of usage, quotas and the request log."""

from tenants.usage.models.requests import LoggedRequest, OmittedRequests, RequestApi, RequestStatus
from tenants.usage.models.usage import AnswerDay, Quota, UsageDay, UsageSum, rate

__all__ = [
    "AnswerDay",
    "LoggedRequest",
    "OmittedRequests",
    "Quota",
    "RequestApi",
    "RequestStatus",
    "UsageDay",
    "UsageSum",
    "rate",
]
