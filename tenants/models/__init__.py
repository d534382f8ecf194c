"""The models of the application; Django finds them here."""

from tenants.models.api_key import ApiKey, Scope
from tenants.models.audit import AuditEvent
from tenants.models.corpus import Corpus
from tenants.models.dataset import Dataset, DatasetSplit, Split, Task
from tenants.models.file import File, FilePurpose
from tenants.models.invitation import Invitation, InvitationState
from tenants.models.kept_answer import KeptAnswer
from tenants.models.parted_file import PartedFile, PartedFileState
from tenants.models.scoping import TenantScopedManager, UnscopedQuery
from tenants.models.takeout import Takeout, TakeoutState
from tenants.models.tenant import Membership, Quota, Role, Tenant
from tenants.models.upload import Upload
from tenants.models.upload_check import CheckKind, CheckState, UploadCheck
from tenants.models.usage import UsageDay, UsageMonth, UsageSum
from tenants.models.user import User
from tenants.models.webhook import DeliveryState, EventKind, WebhookDelivery, WebhookEndpoint

__all__ = [
    "ApiKey",
    "AuditEvent",
    "CheckKind",
    "CheckState",
    "Corpus",
    "Dataset",
    "DatasetSplit",
    "DeliveryState",
    "EventKind",
    "File",
    "FilePurpose",
    "Invitation",
    "InvitationState",
    "KeptAnswer",
    "Membership",
    "PartedFile",
    "PartedFileState",
    "Quota",
    "Role",
    "Scope",
    "Split",
    "Takeout",
    "TakeoutState",
    "Task",
    "Tenant",
    "TenantScopedManager",
    "UnscopedQuery",
    "Upload",
    "UploadCheck",
    "UsageDay",
    "UsageMonth",
    "UsageSum",
    "User",
    "WebhookDelivery",
    "WebhookEndpoint",
]
