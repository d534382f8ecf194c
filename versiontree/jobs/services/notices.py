"""Notices to the user who started a job, once it has failed or its version is ready: an e-mail, and a mark in
the navigation until the list of jobs was opened."""

import logging
from functools import partial
from smtplib import SMTPException
from typing import Final
from uuid import UUID

from django.conf import settings
from django.core.mail import send_mail
from django.db import transaction
from django.db.models import F
from django.template.loader import render_to_string
from django.urls import reverse

from tenants.accounts.models import Membership, Tenant, User
from tenants.accounts.selectors import has_verified_email
from tenants.base.dispatch import SHORT_QUEUE, dispatch
from versiontree.jobs.hooks import job_owner
from versiontree.jobs.models import Job, JobState

SEND_NOTICE_TASK: Final = "jobs.send_notice"
NOTICED: Final = (JobState.SUCCEEDED, JobState.FAILED)

log = logging.getLogger(__name__)


def notice_create(*, job_id: UUID | str, state: JobState) -> None:
    """Mark the end of a job for the user who started it, and have the e-mail sent after the commit if this
    installation sends any. Called in the transaction of the end."""
    if state not in NOTICED:
        return
    job = Job.shown.only("state", "tenant_id", "created_by_id").filter(pk=job_id).first()
    if job is None or job.created_by_id is None or job.tenant_id is None or not _is_end(job):
        return
    members = Membership.unscoped.filter(tenant=job.tenant_id, user=job.created_by_id)
    members.filter(user__notifies_of_jobs=True).update(unseen_jobs=F("unseen_jobs") + 1)
    if not settings.EMAIL_BACKEND.endswith(".console.EmailBackend"):
        transaction.on_commit(partial(dispatch, SEND_NOTICE_TASK, str(job_id), queue=SHORT_QUEUE))


def notice_send(*, job_id: UUID) -> bool:
    """Send the e-mail about a job that has failed, or that was the last of its version; returns whether it
    was sent. The address must be verified, and the user a member who wants notices."""
    rows = Job.unscoped.select_related("created_by", "tenant", "version")
    job = rows.get(pk=job_id)
    user, tenant = job.created_by, job.tenant
    if user is None or tenant is None or not _is_told(job, user, tenant):
        return False
    link = settings.HMI_SITE_URL + reverse("frontend:job", args=[tenant.slug, job.pk])
    failed = job.state == JobState.FAILED
    note = "" if failed else job_owner().ready_note(version_id=job.version.pk)
    context = {"job": job, "tenant": tenant, "link": link, "failed": failed, "note": note}
    subject = " ".join(render_to_string("jobs/email/notice_subject.txt", context).split())
    message = render_to_string("jobs/email/notice_message.txt", context)
    try:
        send_mail(subject, message, None, [user.email])
    except (SMTPException, OSError):
        log.exception("The e-mail about job %s could not be sent", job.pk)
        return False
    return True


def notices_set(*, user: User, wanted: bool) -> None:
    """Whether the user gets notices of jobs."""
    User.objects.filter(pk=user.pk).update(notifies_of_jobs=wanted)


def jobs_mark_seen(*, membership: Membership) -> None:
    """The member has opened the list of the tenant's jobs."""
    membership.unseen_jobs = 0
    membership.save(update_fields=["unseen_jobs"])


def _is_end(job: Job) -> bool:
    """Whether the job failed, or succeeded as the last of its version."""
    if job.state == JobState.SUCCEEDED:
        return not job.followers.exists()
    return job.state == JobState.FAILED


def _is_told(job: Job, user: User, tenant: Tenant) -> bool:
    return (
        _is_end(job)
        and user.is_active
        and user.notifies_of_jobs
        and tenant.memberships.filter(user=user).exists()
        and has_verified_email(user, user.email)
    )
