"""``/api/v1/``: the version tree of a tenant, and of the platform."""

from django.urls import path

from versiontree.tree.api import domains, estimates, fit, hplms, platform_actions, predictions, suspects, tree

in_tenant = [
    path("tree", tree.TreeView.as_view()),
    path("roots", tree.RootsView.as_view()),
    path("versions/<int:version_id>", tree.VersionView.as_view()),
    path("corpora/<int:corpus_id>/fit", fit.CorpusFitView.as_view()),
    path("datasets/<int:dataset_id>/fit", fit.DatasetFitView.as_view()),
    path("corpora/<int:corpus_id>/coverage", fit.CorpusCoverageView.as_view()),
    path("datasets/<int:dataset_id>/coverage", fit.DatasetCoverageView.as_view()),
    path("datasets/<int:dataset_id>/suspects", suspects.DatasetSuspectsView.as_view()),
    path("domains", domains.DomainsView.as_view()),
    path("domains/<int:domain_id>", domains.DomainView.as_view()),
    path("domains/<int:domain_id>/versions", domains.DomainVersionsView.as_view()),
    path("domains/<int:domain_id>/estimate", estimates.DomainEstimateView.as_view()),
    path("domains/<int:domain_id>/compact", domains.DomainCompactView.as_view()),
    path("estimate", estimates.EstimateView.as_view()),
    path("estimate/domain", estimates.DomainsEstimateView.as_view()),
    path("models", hplms.HplmsView.as_view()),
    path("models/<slug:name>", hplms.HplmView.as_view()),
    path("models/<slug:name>/versions", hplms.HplmVersionsView.as_view()),
    path("models/<slug:name>/versions/<int:number>", hplms.HplmVersionView.as_view()),
    path("models/<slug:name>/versions/<int:number>/predictions", predictions.PredictionsView.as_view()),
    path("models/<slug:name>/versions/<int:number>/evaluate", predictions.EvaluateView.as_view()),
    path("models/<slug:name>/aliases", hplms.AliasesView.as_view()),
    path("models/<slug:name>/aliases/<slug:alias>", hplms.AliasView.as_view()),
    path("models/<slug:name>/aliases/<slug:alias>/rollback", hplms.AliasRollbackView.as_view()),
    path("models/<slug:name>/aliases/<slug:alias>/canary", hplms.CanaryView.as_view()),
    path("models/<slug:name>/aliases/<slug:alias>/canary/promote", hplms.CanaryPromoteView.as_view()),
    path("models/<slug:name>/alias-moves", hplms.AliasMovesView.as_view()),
]

platform = [
    path("roots", tree.PlatformRootsView.as_view()),
    path("corpora/<int:corpus_id>/fit", fit.PlatformCorpusFitView.as_view()),
    path("domains", domains.PlatformDomainsView.as_view()),
    path("domains/<int:domain_id>/versions", domains.PlatformDomainVersionsView.as_view()),
    path("estimate/domain", estimates.PlatformDomainsEstimateView.as_view()),
    path("domains/<int:domain_id>/estimate", estimates.PlatformDomainEstimateView.as_view()),
    path("domains/<int:domain_id>/compact", domains.PlatformDomainCompactView.as_view()),
    path("domains/<int:domain_id>/publish", platform_actions.DomainPublishView.as_view()),
    path("domains/<int:domain_id>/retire", platform_actions.DomainRetireView.as_view()),
    path("jobs/<uuid:job_id>/priority", platform_actions.JobPriorityView.as_view()),
    path("jobs/<uuid:job_id>/requeue", platform_actions.JobRequeueView.as_view()),
    path("tenants/<slug:slug>/models/<slug:name>/pin", platform_actions.HplmPinView.as_view()),
]
