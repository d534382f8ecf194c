"""Audit events as sentences, and as rows of a CSV file."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tenants.audit.details import detail_lines
from tenants.audit.models import AuditEvent

SENTENCES: Final[Mapping[str, str]] = {
    "alias.canary": "started a canary of the alias {subject}",
    "alias.canary_end": "ended the canary of the alias {subject}",
    "alias.move": "moved the alias {subject}",
    "alias.remove": "removed the alias {subject}",
    "api_key.create": "created the API key {subject}",
    "api_key.revoke": "revoked the API key {subject}",
    "api_key.rotate": "rotated the API key {subject}",
    "batch.cancel": "canceled the batch {subject}",
    "batch.create": "started the batch {subject}",
    "batch.delete": "deleted the batch {subject}",
    "corpus.delete": "deleted the corpus {subject}",
    "corpus.rename": "renamed the corpus {subject}",
    "corpus.upload": "uploaded the corpus {subject}",
    "dataset.delete": "deleted the dataset {subject}",
    "dataset.rename": "renamed the dataset {subject}",
    "dataset.upload": "uploaded the dataset {subject}",
    "domain.compact": "compacted the tables of the domain {subject}",
    "domain.create": "created the domain {subject}",
    "domain.grow": "started growing the domain {subject}",
    "domain.publish": "published the domain {subject}",
    "domain.rebase": "started rebasing the models on the domain {subject}",
    "domain.retire": "retired the domain {subject}",
    "domain.update": "updated the domain {subject}",
    "file.create": "uploaded the file {subject}",
    "file.delete": "deleted the file {subject}",
    "fine_tuning.cancel": "canceled the fine-tuning of {subject}",
    "fine_tuning.delete_results": "deleted the results of the fine-tuning of {subject}",
    "fine_tuning.create": "started the fine-tuning of {subject}",
    "model.create": "created the model {subject}",
    "model.delete": "deleted the model {subject}",
    "model.evaluate": "started an evaluation of the model {subject}",
    "model.describe": "changed the description of the model {subject}",
    "model.license": "changed the license of the model {subject}",
    "model.pin": "pinned the model {subject} in memory",
    "model.rebase": "rebased the model {subject}",
    "model.rename": "renamed the model {subject}",
    "model.unpin": "unpinned the model {subject}",
    "model.update": "updated the model {subject}",
    "invitation.accept": "accepted the invitation of {subject}",
    "invitation.create": "invited {subject}",
    "invitation.resend": "resent the invitation of {subject}",
    "invitation.withdraw": "withdrew the invitation of {subject}",
    "job.cancel": "canceled the job {subject}",
    "job.prioritise": "changed the priority of the job {subject}",
    "job.requeue": "requeued the job {subject}",
    "job.retry": "retried the job {subject}",
    "member.add": "added the member {subject}",
    "member.leave": "left the tenant ({subject})",
    "member.remove": "removed the member {subject}",
    "member.set_role": "changed the role of {subject}",
    "quota.change": "changed the quota of {subject}",
    "root.convert": "started converting the root {subject} again",
    "root.license": "changed the license of the root {subject}",
    "root.rebase": "started rebasing the models on the root {subject}",
    "root.register": "registered the root {subject}",
    "root.retire": "retired the root {subject}",
    "tenant.create": "created the tenant {subject}",
    "tenant.export": "requested a data export of {subject}",
    "tenant.fetch": "downloaded the data export of {subject}",
    "tenant.delete_requested": "requested the deletion of all data of {subject}",
    "tenant.deleted": "finished deleting the data of {subject}",
    "tenant.rename": "renamed the tenant {subject}",
    "tenant.resume": "resumed the tenant {subject}",
    "tenant.set_sharing": "changed the data sharing of {subject}",
    "tenant.set_answer_checks": "changed the answer checks of {subject}",
    "tenant.set_auto_rebase": "changed the automatic rebases of {subject}",
    "tenant.set_request_texts": "changed the storage of request texts of {subject}",
    "tenant.set_weight": "changed the weight of {subject}",
    "tenant.suspend": "suspended the tenant {subject}",
    "tenant.view_end": "closed the read-only view of {subject}",
    "tenant.view_start": "opened the pages of {subject} read-only",
    "version.export": "exported {subject}",
    "version.from_checkpoint": "created {subject} from its root's checkpoint",
    "version.import": "imported {subject}",
    "version.policy": "changed the policy of {subject}",
    "webhook.change": "changed the webhook to {subject}",
    "webhook.create": "created the webhook to {subject}",
    "webhook.delete": "deleted the webhook to {subject}",
    "webhook.disable": "disabled the webhook to {subject}",
    "webhook.replay": "resent an event to {subject}",
    "webhook.rotate": "rotated the secret of the webhook to {subject}",
    "webhook.test": "sent a test event to {subject}",
}
"""Sentences by verb, without the actor. {subject} stands for the object."""

SYSTEM: Final = "The system"


@dataclass(frozen=True, slots=True)
class AuditRow:
    """An event. Its sentence is: `who` `before`, its subject, `after`."""

    event: AuditEvent
    who: str
    before: str
    after: str
    detail: list[tuple[str, str]]


def audit_row(event: AuditEvent) -> AuditRow:
    """Return the row of an event on the page."""
    sentence = SENTENCES.get(event.verb) or f"{event.verb.replace('_', ' ').replace('.', ': ')} {{subject}}"
    before, _, after = sentence.partition("{subject}")
    return AuditRow(
        event,
        who=actor_name(event),
        before=before.strip(),
        after=after.strip(),
        detail=list(detail_lines(event.detail)),
    )


def actor_name(event: AuditEvent) -> str:
    """Return the user name, the prefix of the API key, or "The system"."""
    if event.actor is not None:
        return str(event.actor.get_username())
    return f"key {event.api_key_id}" if event.api_key_id else SYSTEM


def audit_line(event: AuditEvent) -> list[object]:
    """Return the row of an event in the CSV file."""
    return [
        event.at.isoformat(timespec="seconds"),
        actor_name(event),
        event.verb,
        event.subject,
        event.address or "",
        event.request_id,
        json.dumps(event.detail, ensure_ascii=False) if event.detail else "",
    ]
