"""The API's objects as dataclasses. Times are ISO 8601 strings in UTC.

Unknown fields are ignored, so that the client works with a newer server. Missing fields have their defaults.
"""

from hmi_client.responses.answers import Answer, AnsweredBy
from hmi_client.responses.batches import Batch
from hmi_client.responses.data import Check, Corpus, Dataset, DatasetRow, Split, Upload
from hmi_client.responses.decoding import Json, from_json
from hmi_client.responses.jobs import FINISHED_STATES, Job, JobEvent, JobSummary
from hmi_client.responses.models import Alias, AliasMove, Canary, Comparison, Domain, Model, Rollback, Version
from hmi_client.responses.rebases import RebaseOffer, Rebases, RefusedRebase
from hmi_client.responses.tenants import ApiKey, LoggedRequest, Tenant, Usage
from hmi_client.responses.webhooks import Delivery, Webhook

__all__ = [
    "FINISHED_STATES",
    "Alias",
    "AliasMove",
    "Answer",
    "AnsweredBy",
    "ApiKey",
    "Batch",
    "Canary",
    "Check",
    "Comparison",
    "Corpus",
    "Dataset",
    "DatasetRow",
    "Delivery",
    "Domain",
    "Job",
    "JobEvent",
    "JobSummary",
    "Json",
    "LoggedRequest",
    "Model",
    "RebaseOffer",
    "Rebases",
    "RefusedRebase",
    "Rollback",
    "Split",
    "Tenant",
    "Upload",
    "Usage",
    "Version",
    "Webhook",
    "from_json",
]
