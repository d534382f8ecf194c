"""``/api/v1/``: the manage API.

What a tenant sees stands at two addresses: ``hplms`` for keys, which know their tenant, and
``tenants/<slug>/hplms`` for people, who name it. What belongs to the platform stands at ``platform/…``.
"""

from django.urls import include, path

from versiontree.api import (
    archives,
    batches,
    coverage,
    domains,
    estimates,
    fit,
    hplms,
    jobs,
    orders,
    predictions,
    tree,
)

in_a_tenant = [
    path("tree", tree.TreeView.as_view()),
    path("roots", tree.RootsView.as_view()),
    path("versions/<int:version_id>", tree.VersionView.as_view()),
    path("versions/<int:version_id>/export", archives.VersionExportView.as_view()),
    path("import", archives.ImportView.as_view()),
    path("import/adapter", archives.ImportAdapterView.as_view()),
    path("corpora/<int:corpus_id>/fit", fit.CorpusFitView.as_view()),
    path("datasets/<int:dataset_id>/fit", fit.DatasetFitView.as_view()),
    path("corpora/<int:corpus_id>/coverage", coverage.CorpusCoverageView.as_view()),
    path("datasets/<int:dataset_id>/coverage", coverage.DatasetCoverageView.as_view()),
    path("domains", domains.DomainsView.as_view()),
    path("domains/<int:domain_id>", domains.DomainView.as_view()),
    path("domains/<int:domain_id>/versions", domains.DomainVersionsView.as_view()),
    path("domains/<int:domain_id>/estimate", estimates.DomainEstimateView.as_view()),
    path("domains/<int:domain_id>/grow", domains.DomainGrowView.as_view()),
    path("domains/<int:domain_id>/compact", domains.DomainCompactView.as_view()),
    path("estimate", estimates.EstimateView.as_view()),
    path("estimate/domain", estimates.DomainsEstimateView.as_view()),
    path("hplms", hplms.HplmsView.as_view()),
    path("hplms/<slug:hplm>", hplms.HplmView.as_view()),
    path("hplms/<slug:hplm>/versions", hplms.HplmVersionsView.as_view()),
    path("hplms/<slug:hplm>/versions/<int:number>/predictions", predictions.PredictionsView.as_view()),
    path("hplms/<slug:hplm>/versions/<int:number>/evaluate", predictions.EvaluateView.as_view()),
    path("hplms/<slug:hplm>/aliases", hplms.AliasesView.as_view()),
    path("hplms/<slug:hplm>/aliases/<slug:alias>", hplms.AliasView.as_view()),
    path("hplms/<slug:hplm>/alias-moves", hplms.AliasMovesView.as_view()),
    path("batches", batches.BatchesView.as_view()),
    path("batches/<uuid:batch_id>", batches.BatchView.as_view()),
    path("batches/<uuid:batch_id>/cancel", batches.BatchCancelView.as_view()),
    path("batches/<uuid:batch_id>/results", batches.BatchResultsView.as_view()),
    path("batches/<uuid:batch_id>/errors", batches.BatchErrorsView.as_view()),
    path("jobs", jobs.JobsView.as_view()),
    path("jobs/<uuid:job_id>", jobs.JobView.as_view()),
    path("jobs/<uuid:job_id>/events", jobs.JobEventsView.as_view()),
    path("jobs/<uuid:job_id>/cancel", jobs.JobCancelView.as_view()),
    path("jobs/<uuid:job_id>/retry", jobs.JobRetryView.as_view()),
]

on_the_platform = [
    path("roots", tree.PlatformRootsView.as_view()),
    path("versions/<int:version_id>/export", archives.PlatformVersionExportView.as_view()),
    path("import", archives.PlatformImportView.as_view()),
    path("corpora/<int:corpus_id>/fit", fit.PlatformCorpusFitView.as_view()),
    path("domains", domains.PlatformDomainsView.as_view()),
    path("domains/<int:domain_id>/versions", domains.PlatformDomainVersionsView.as_view()),
    path("estimate/domain", estimates.PlatformDomainsEstimateView.as_view()),
    path("domains/<int:domain_id>/estimate", estimates.PlatformDomainEstimateView.as_view()),
    path("domains/<int:domain_id>/grow", domains.PlatformDomainGrowView.as_view()),
    path("domains/<int:domain_id>/compact", domains.PlatformDomainCompactView.as_view()),
    path("domains/<int:domain_id>/publish", orders.DomainPublishView.as_view()),
    path("domains/<int:domain_id>/retire", orders.DomainRetireView.as_view()),
    path("jobs", jobs.PlatformJobsView.as_view()),
    path("jobs/<uuid:job_id>", jobs.PlatformJobView.as_view()),
    path("jobs/<uuid:job_id>/events", jobs.PlatformJobEventsView.as_view()),
    path("jobs/<uuid:job_id>/cancel", jobs.PlatformJobCancelView.as_view()),
    path("jobs/<uuid:job_id>/retry", jobs.PlatformJobRetryView.as_view()),
    path("jobs/<uuid:job_id>/place", orders.JobPlaceView.as_view()),
    path("jobs/<uuid:job_id>/requeue", orders.JobRequeueView.as_view()),
    path("tenants/<slug:slug>/hplms/<slug:hplm>/pin", orders.HplmPinView.as_view()),
]

urlpatterns = [
    path("platform/", include(on_the_platform)),
    path("tenants/<slug:tenant>/", include(in_a_tenant)),
    path("", include(in_a_tenant)),
]
