from django.urls import path

from frontend.views import data, domains, home, hplms, jobs, keys, session, tree, trying, uploads

app_name = "frontend"

urlpatterns = [
    path("", home.start, name="start"),
    path("favicon.ico", home.favicon, name="favicon"),
    path("login/", session.SignIn.as_view(), name="login"),
    path("logout/", session.SignOut.as_view(), name="logout"),
    path("t/<slug:slug>/", home.home, name="home"),
    path("t/<slug:slug>/running/", home.running, name="running"),
    path("t/<slug:slug>/tree/", tree.tree, name="tree"),
    path("t/<slug:slug>/data/", data.index, name="data"),
    path("t/<slug:slug>/data/corpora/new/", uploads.corpus_new, name="corpus_new"),
    path("t/<slug:slug>/data/corpora/check/", uploads.corpus_check, name="corpus_check"),
    path("t/<slug:slug>/data/corpora/<int:pk>/", data.corpus, name="corpus"),
    path("t/<slug:slug>/data/corpora/<int:pk>/delete/", data.corpus_remove, name="corpus_remove"),
    path("t/<slug:slug>/data/datasets/new/", uploads.dataset_new, name="dataset_new"),
    path("t/<slug:slug>/data/datasets/check/", uploads.dataset_check, name="dataset_check"),
    path("t/<slug:slug>/data/datasets/<int:pk>/", data.dataset, name="dataset"),
    path("t/<slug:slug>/data/datasets/<int:pk>/delete/", data.dataset_remove, name="dataset_remove"),
    path("t/<slug:slug>/domains/new/", domains.new, name="domain_new"),
    path("t/<slug:slug>/domains/<int:pk>/", domains.domain, name="domain"),
    path("t/<slug:slug>/domains/<int:pk>/update/", domains.update, name="domain_update"),
    path("t/<slug:slug>/hplms/new/", hplms.new, name="hplm_new"),
    path("t/<slug:slug>/hplms/<slug:name>/", hplms.hplm, name="hplm"),
    path("t/<slug:slug>/hplms/<slug:name>/update/", hplms.update, name="hplm_update"),
    path("t/<slug:slug>/hplms/<slug:name>/delete/", hplms.delete, name="hplm_delete"),
    path("t/<slug:slug>/hplms/<slug:name>/alias/", hplms.move_alias, name="alias_move"),
    path("t/<slug:slug>/jobs/", jobs.index, name="jobs"),
    path("t/<slug:slug>/jobs/<uuid:pk>/", jobs.job, name="job"),
    path("t/<slug:slug>/jobs/<uuid:pk>/progress/", jobs.progress, name="job_progress"),
    path("t/<slug:slug>/jobs/<uuid:pk>/cancel/", jobs.cancel, name="job_cancel"),
    path("t/<slug:slug>/jobs/<uuid:pk>/retry/", jobs.retry, name="job_retry"),
    path("t/<slug:slug>/try/", trying.page, name="try"),
    path("t/<slug:slug>/try/answer/", trying.answer, name="try_answer"),
    path("t/<slug:slug>/keys/", keys.index, name="keys"),
    path("t/<slug:slug>/keys/new/", keys.create, name="key_create"),
    path("t/<slug:slug>/keys/<str:prefix>/revoke/", keys.revoke, name="key_revoke"),
]
