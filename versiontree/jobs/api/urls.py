"""``/api/v1/``: jobs of a tenant, and of the platform."""

from django.urls import path

from versiontree.jobs.api import jobs

in_tenant = [
    path("jobs", jobs.JobsView.as_view()),
    path("jobs/<uuid:job_id>", jobs.JobView.as_view()),
    path("jobs/<uuid:job_id>/events", jobs.JobEventsView.as_view()),
    path("jobs/<uuid:job_id>/cancel", jobs.JobCancelView.as_view()),
    path("jobs/<uuid:job_id>/retry", jobs.JobRetryView.as_view()),
]
platform = [
    path("jobs", jobs.PlatformJobsView.as_view()),
    path("jobs/<uuid:job_id>", jobs.PlatformJobView.as_view()),
    path("jobs/<uuid:job_id>/events", jobs.PlatformJobEventsView.as_view()),
    path("jobs/<uuid:job_id>/cancel", jobs.PlatformJobCancelView.as_view()),
    path("jobs/<uuid:job_id>/retry", jobs.PlatformJobRetryView.as_view()),
]
