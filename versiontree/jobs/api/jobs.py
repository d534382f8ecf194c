"""List, show, cancel and retry jobs."""

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.accounts.api.access import StaffView, TenantView
from tenants.accounts.models import Tenant
from tenants.accounts.permissions import request_actor
from tenants.base.api.inputs import validated_query
from tenants.base.api.object_view import ObjectView
from tenants.base.api.pagination import LinkHeaderPagination
from versiontree.jobs.api.serializers import (
    POSITIONS,
    EventsQuerySerializer,
    JobEventSerializer,
    JobSerializer,
    JobsQuerySerializer,
)
from versiontree.jobs.models import Job
from versiontree.jobs.selectors import job_detail, job_events, jobs_search, queue_positions
from versiontree.jobs.services.control import job_cancel, job_retry


class OwnerView(TenantView):
    """A view of a tenant's rows, for keys with the scope ``manage`` and members."""

    @property
    def owner(self) -> Tenant | None:
        """The tenant whose rows are shown."""
        return self.tenant


class PlatformView(StaffView):
    """A view of the platform's rows, for signed-in staff."""

    @property
    def owner(self) -> Tenant | None:
        """None: the rows of the platform."""
        return None


class _Job(GenericAPIView[Any]):
    serializer_class = JobSerializer
    queryset = Job.unscoped.none()
    owner: Tenant | None


class _Jobs(_Job):
    ordering: tuple[str, ...] = ("-created_at", "pk")

    @extend_schema(parameters=[JobsQuerySerializer], responses=JobSerializer(many=True))
    def get(self, request: Request, **_: Any) -> Response:
        query = validated_query(JobsQuerySerializer, request)
        found = jobs_search(self.owner, words=query["words"], kind=query.get("kind", ""))
        page = self.paginate_queryset(found.filter(state=query["state"]) if "state" in query else found)
        context = {POSITIONS: queue_positions(page or [])}
        return self.get_paginated_response(JobSerializer(page, many=True, context=context).data)


class _JobDetail(ObjectView, _Job):
    def find_object(self, *, job_id: UUID, **_: Any) -> Job:
        return job_detail(self.owner, job_id)


class EventPages(LinkHeaderPagination):
    """Pages of 500: a job has many events."""

    page_size = 500


class _JobEvents(_Job):
    pagination_class = EventPages
    ordering: tuple[str, ...] = ("pk",)

    @extend_schema(parameters=[EventsQuerySerializer], responses=JobEventSerializer(many=True))
    def get(self, request: Request, job_id: UUID, **_: Any) -> Response:
        after = validated_query(EventsQuerySerializer, request)["after"]
        page = self.paginate_queryset(job_events(job_detail(self.owner, job_id), after=after))
        return self.get_paginated_response(JobEventSerializer(page, many=True).data)


class _JobCancel(_Job):
    @extend_schema(request=None, responses=JobSerializer)
    def post(self, request: Request, job_id: UUID, **_: Any) -> Response:
        job = job_cancel(job=job_detail(self.owner, job_id), actor=request_actor(request))
        return Response(JobSerializer(job).data)


class _JobRetry(_Job):
    @extend_schema(request=None, responses=JobSerializer)
    def post(self, request: Request, job_id: UUID, **_: Any) -> Response:
        job = job_retry(job=job_detail(self.owner, job_id), actor=request_actor(request))
        return Response(JobSerializer(job).data)


class JobsView(_Jobs, OwnerView):
    """List the tenant's jobs, newest first."""


class JobView(_JobDetail, OwnerView):
    """Get a job."""


class JobEventsView(_JobEvents, OwnerView):
    """List the events of a job, oldest first.

    A page has at most 500. The header ``Link`` has the addresses of the previous and next page; ``after``
    starts behind the event with that id.
    """


class JobCancelView(_JobCancel, OwnerView):
    """Cancel a job. A running job stops soon after."""


class JobRetryView(_JobRetry, OwnerView):
    """Retry a failed or canceled job."""


class PlatformJobsView(_Jobs, PlatformView):
    """List the platform's jobs, newest first."""

    permissions = {"GET": ("jobs.view_job",)}


class PlatformJobView(_JobDetail, PlatformView):
    """Get a job of the platform."""

    permissions = {"GET": ("jobs.view_job",)}


class PlatformJobEventsView(_JobEvents, PlatformView):
    """List the events of a job of the platform."""

    permissions = {"GET": ("jobs.view_job",)}


class PlatformJobCancelView(_JobCancel, PlatformView):
    """Cancel a job of the platform."""

    permissions = {"POST": ("jobs.change_job",)}


class PlatformJobRetryView(_JobRetry, PlatformView):
    """Retry a failed or canceled job of the platform."""

    permissions = {"POST": ("jobs.change_job",)}
