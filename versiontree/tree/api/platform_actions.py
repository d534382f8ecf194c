"""Staff actions: publish and retire domains, retire roots, prioritise and requeue jobs, pin models."""

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.accounts.permissions import request_actor
from tenants.accounts.selectors import tenant_by_slug
from tenants.base.api.inputs import ChoiceField, StrictSerializer, validated_body
from versiontree.jobs.api.jobs import PlatformView
from versiontree.jobs.api.serializers import JobSerializer
from versiontree.jobs.models import Job
from versiontree.jobs.selectors import job_by_id
from versiontree.jobs.services.control import PRIORITIES, job_prioritise, job_requeue
from versiontree.tree.api.serializers import DomainSerializer, HplmSerializer, RootSerializer
from versiontree.tree.models import Domain, Hplm, Root
from versiontree.tree.selectors.versions import domain_of, hplm_of, root_by_name
from versiontree.tree.services.domains import domain_publish, domain_retire
from versiontree.tree.services.hplms import hplm_pin, hplm_unpin
from versiontree.tree.services.root_retirement import root_retire


class RetiredSerializer(serializers.Serializer[Any]):
    """How many versions were retired."""

    retired = serializers.IntegerField()


class JobPrioritySerializer(StrictSerializer):
    """The new priority of a job."""

    priority = ChoiceField(choices=list(PRIORITIES))


class DomainPublishView(PlatformView):
    """Publish a platform domain: tenants see it and can build upon it."""

    permissions = {"POST": ("tree.change_domain",)}
    serializer_class = DomainSerializer
    queryset = Domain.unscoped.none()

    @extend_schema(request=None, responses=DomainSerializer)
    def post(self, request: Request, domain_id: int) -> Response:
        domain_publish(domain=domain_of(None, domain_id), actor=request_actor(request))
        return Response(DomainSerializer(domain_of(None, domain_id)).data)


class DomainRetireView(PlatformView):
    """Retire a platform domain: nobody can build upon it any more."""

    permissions = {"POST": ("tree.change_domain",)}
    serializer_class = RetiredSerializer
    queryset = Domain.unscoped.none()

    @extend_schema(request=None, responses=RetiredSerializer)
    def post(self, request: Request, domain_id: int) -> Response:
        retired = domain_retire(domain=domain_of(None, domain_id), actor=request_actor(request))
        return Response({"retired": retired})


class RootRetireView(PlatformView):
    """Retire a root: no domains or models start on it any more. Those that are there stay."""

    permissions = {"POST": ("tree.change_root",)}
    serializer_class = RootSerializer
    queryset = Root.objects.none()

    @extend_schema(request=None, responses=RootSerializer)
    def post(self, request: Request, name: str) -> Response:
        root = root_retire(root=root_by_name(name), actor=request_actor(request))
        return Response(RootSerializer(root).data)


class _JobActionView(PlatformView):
    serializer_class = JobSerializer
    queryset = Job.unscoped.none()


class JobPriorityView(_JobActionView):
    """Change the priority of a job of any tenant that has not started."""

    permissions = {"PUT": ("jobs.change_job",)}

    @extend_schema(request=JobPrioritySerializer, responses=JobSerializer)
    def put(self, request: Request, job_id: UUID) -> Response:
        priority = PRIORITIES[validated_body(JobPrioritySerializer, request)["priority"]]
        job = job_prioritise(job=job_by_id(job_id), priority=priority, actor=request_actor(request))
        return Response(JobSerializer(job).data)


class JobRequeueView(_JobActionView):
    """Queue a job of any tenant again. A running job is taken from its worker."""

    permissions = {"POST": ("jobs.change_job",)}

    @extend_schema(request=None, responses=JobSerializer)
    def post(self, request: Request, job_id: UUID) -> Response:
        job = job_requeue(job=job_by_id(job_id), actor=request_actor(request))
        return Response(JobSerializer(job).data)


class HplmPinView(PlatformView):
    """A tenant's model in the memory of inference workers."""

    permissions = {"PUT": ("tree.change_hplm",), "DELETE": ("tree.change_hplm",)}
    serializer_class = HplmSerializer
    queryset = Hplm.unscoped.none()

    @extend_schema(request=None, responses={204: None})
    def put(self, request: Request, **path: Any) -> Response:
        """Pin a tenant's model in the memory of inference workers."""
        hplm_pin(hplm=_hplm(**path), actor=request_actor(request))
        return Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, **path: Any) -> Response:
        """Unpin a tenant's model."""
        hplm_unpin(hplm=_hplm(**path), actor=request_actor(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


def _hplm(*, slug: str, name: str) -> Hplm:
    return hplm_of(tenant_by_slug(slug), name)
