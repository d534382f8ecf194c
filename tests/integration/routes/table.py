"""Who may do what at each address. A route that is not here fails the walk (test_walk.py), and so does one
that takes a method which is not here.

Requests carry no data: 422, or a form shown again (200), is the answer to whoever is let in and has said
nothing that could be done.
"""

from tests.integration.routes.codes import (
    Codes,
    everybody,
    own,
    page,
    read,
    rule,
    run,
    signed_in,
    staff,
    work,
    write,
)

Methods = dict[str, Codes]


def get(codes: Codes) -> Methods:
    """A route that is only looked at."""
    return {"GET": codes}


def post(codes: Codes) -> Methods:
    """A button."""
    return {"POST": codes}


def form(codes: Codes, sent: int = 200) -> Methods:
    """A form at one address: shown, and sent with nothing in it."""
    admitted = Codes(*(sent if code == 200 else code for code in _values(codes)))
    return {"GET": codes, "POST": admitted}


def _values(codes: Codes) -> list[int]:
    return [getattr(codes, person) for person in Codes.__slots__]


SITE: dict[str, Methods] = {
    "health/live": get(everybody(200)),
    "health/ready": get(everybody(503)),
    "v2/health/live": get(everybody(200)),
    "v2/health/ready": get(everybody(503)),
    "metrics": get(staff(200, others=404, anonymous=404)),
    "api/schema/": get(everybody(200)),
    "api/docs/": get(everybody(200)),
    "favicon.ico": get(everybody(302)),
    "": get(everybody(302)),
    "serving/": get(everybody(302)),
    "leave-view/": post(everybody(302)),
}

# Of no use without the link of an invitation.
INVITED: dict[str, Methods] = {
    "invitations/<str:token>/": get(everybody(302)),
    "invitation/": form(everybody(404)),
}

# Everybody's own account, by django-allauth.
ACCOUNTS: dict[str, Methods] = {
    "login/": form(Codes(200, 302, 302, 302, 302, 302)),
    "logout/": form(Codes(302, 200, 200, 200, 200, 200), sent=302),
    "inactive/": get(everybody(200)),
    "signup/": form(Codes(200, 302, 302, 302, 302, 302)),
    "reauthenticate/": form(signed_in(200)),
    "email/": form(signed_in(200), sent=302),
    "confirm-email/": get(everybody(200)),
    "confirm-email/<key>/": get(everybody(200)),
    "password/change/": form(signed_in(200)),
    "profile/": get(signed_in(200)),
    "notices/": form(signed_in(200)),
    "help/": get(signed_in(200)),
    "help/glossary/": get(signed_in(200)),
    "help/images/<str:name>": get(signed_in(200)),
    "help/<slug:name>/": get(signed_in(200)),
    "password/set/": form(everybody(302)),
    "password/reset/": form(everybody(200)),
    "password/reset/done/": get(everybody(200)),
    "password/reset/key/<uidb36>-<key>/": form(everybody(200)),
    "password/reset/key/done/": get(everybody(200)),
    "login/code/confirm/": form(everybody(302)),
    "second-factor/": get(signed_in(200)),
    "second-factor/authenticate/": form(everybody(302)),
    "second-factor/reauthenticate/": form(signed_in(302)),
    "second-factor/totp/activate/": form(everybody(302)),
    "second-factor/totp/deactivate/": form(signed_in(404)),
    "second-factor/recovery-codes/": get(signed_in(404)),
    "second-factor/recovery-codes/generate/": form(everybody(302)),
    "second-factor/recovery-codes/download/": get(signed_in(404)),
}

API_OF_A_TENANT: dict[str, Methods] = {
    "": {"GET": read(), "PATCH": rule(200)},
    "tree": get(read()),
    "roots": get(read()),
    "roots/<slug:name>/rebase": post(write(200)),
    "versions/<int:version_id>": get(read()),
    "versions/<int:version_id>/export": get(write(200)),
    "import": post(write(415)),  # they take forms
    "import/adapter": post(write(415)),
    "corpora": {"GET": read(), "POST": write(415)},
    "corpora/preview": post(write(415)),
    "corpora/<int:corpus_id>": {"GET": read(), "DELETE": write(409)},
    "corpora/<int:corpus_id>/fit": get(read(422)),
    "datasets": {"GET": read(), "POST": write(415)},
    "datasets/preview": post(write(415)),
    "datasets/<int:dataset_id>": {"GET": read(), "DELETE": write(409)},
    "datasets/<int:dataset_id>/fit": get(read(422)),
    "corpora/<int:corpus_id>/coverage": get(read()),
    "datasets/<int:dataset_id>/coverage": get(read()),
    "datasets/<int:dataset_id>/suspects": get(read()),
    "datasets/<int:dataset_id>/corrections": post(write(422)),
    "datasets/<int:dataset_id>/rows": get(read()),
    "datasets/<int:dataset_id>/edits": post(write(422)),
    "datasets/<int:dataset_id>/splits/<str:split>": get(read()),
    "uploads": {"GET": read(), "POST": write(400)},
    "uploads/<uuid:upload_id>": {  # an owner's, and nobody else's
        "GET": Codes(401, 404, 404, 404, 200, 404),
        "PATCH": write(415),
        "DELETE": Codes(401, 404, 403, 404, 204, 404),
    },
    "checks": post(write(422)),
    "checks/<uuid:check_id>": get(read()),
    "domains": {"GET": read(), "POST": write(422)},
    "domains/<int:domain_id>": get(read()),
    "domains/<int:domain_id>/versions": {"GET": read(), "POST": write(422)},
    "domains/<int:domain_id>/estimate": post(write(422)),
    "domains/<int:domain_id>/compact": post(write(409)),
    "domains/<int:domain_id>/rebase": post(write(200)),
    "rebases": get(read()),
    "estimate": post(write(422)),
    "estimate/domain": post(write(422)),
    "models": {"GET": read(), "POST": write(422)},
    "models/<slug:name>": {"GET": read(), "PATCH": write(422), "DELETE": write(204)},
    "models/<slug:name>/rebase": post(write(409)),  # there is no newer version
    "models/<slug:name>/versions": {"GET": read(), "POST": write(422)},
    "models/<slug:name>/versions/<int:number>": {"GET": read(), "PATCH": write(422)},
    "models/<slug:name>/versions/<int:number>/predictions": get(read(404)),  # not stored
    "models/<slug:name>/versions/<int:number>/evaluate": post(write(201)),
    "models/<slug:name>/aliases": get(read()),
    "models/<slug:name>/aliases/<slug:alias>": {
        "GET": read(),
        "PUT": write(422),
        "DELETE": write(409),  # the default
    },
    "models/<slug:name>/aliases/<slug:alias>/rollback": post(write(409)),
    "models/<slug:name>/aliases/<slug:alias>/canary": {"PUT": write(422), "DELETE": write(409)},  # none
    "models/<slug:name>/aliases/<slug:alias>/canary/promote": post(write(409)),
    "models/<slug:name>/alias-moves": get(read()),
    "batches": {"GET": read(), "POST": write(422)},
    "batches/<uuid:batch_id>": {"GET": read(), "DELETE": write(409)},
    "batches/<uuid:batch_id>/cancel": post(write(200)),
    "batches/<uuid:batch_id>/results": get(read(404)),  # it has not ended
    "batches/<uuid:batch_id>/errors": get(read(404)),
    "jobs": get(read()),
    "jobs/<uuid:job_id>": get(read()),
    "jobs/<uuid:job_id>/events": get(read()),
    "jobs/<uuid:job_id>/cancel": post(write(409)),
    "jobs/<uuid:job_id>/retry": post(write(409)),
    "api-keys": {"GET": write(200), "POST": rule(422)},
    "api-keys/<str:prefix>": {"GET": write(200), "DELETE": rule(204)},
    "api-keys/<str:prefix>/rotate": post(rule(201)),
    "members": get(read()),
    "members/<int:member_id>": {  # the viewer's own, who may leave
        "GET": read(),
        "PATCH": rule(422),
        "DELETE": Codes(401, 404, 204, 403, 204, 404),
    },
    "invitations": {"GET": rule(200), "POST": rule(422)},
    "invitations/<int:invitation_id>": {"GET": rule(200), "DELETE": rule(204)},
    "invitations/<int:invitation_id>/resend": post(rule(201)),
    "takeouts": {"GET": rule(200), "POST": rule(201)},
    "takeouts/<uuid:takeout_id>": get(rule(200)),
    "takeouts/<uuid:takeout_id>/file": get(rule(200)),
    "usage": get(read()),
    "requests": get(read()),
    "audit": get(rule(200)),
    "webhooks": {"GET": write(200), "POST": write(422)},
    "webhooks/<uuid:endpoint_id>": {"GET": write(200), "PATCH": write(422), "DELETE": write(204)},
    "webhooks/<uuid:endpoint_id>/rotate": post(write(200)),
    "webhooks/<uuid:endpoint_id>/test": post(write(201)),
    "webhooks/<uuid:endpoint_id>/deliveries": get(write(200)),
    "webhooks/<uuid:endpoint_id>/deliveries/<uuid:delivery_id>": get(write(200)),
    "webhooks/<uuid:endpoint_id>/deliveries/<uuid:delivery_id>/replay": post(write(201)),
}

API: dict[str, Methods] = {
    "infer": post(Codes(401, 422, 422, 422, 422, 422)),  # the body says whose model it is
    "infer/<slug:request_id>": {"DELETE": read(404)},
    "tenants": get(Codes(401, 200, 200, 200, 200, 200)),
    "platform/roots": {"GET": run(), "POST": run(422)},
    "platform/roots/<slug:name>/convert": post(run(201)),
    "platform/roots/<slug:name>/rebase": post(run(202)),
    "platform/versions/<int:version_id>/export": get(run()),
    "platform/import": post(run(415)),
    "platform/corpora": {"GET": run(), "POST": run(415)},
    "platform/corpora/<int:corpus_id>/fit": get(run(422)),
    "platform/domains": {"GET": run(), "POST": run(422)},
    "platform/domains/<int:domain_id>/versions": {"GET": run(), "POST": run(422)},
    "platform/estimate/domain": post(run(422)),
    "platform/estimate/root": post(run(422)),
    "platform/domains/<int:domain_id>/estimate": post(run(422)),
    "platform/domains/<int:domain_id>/compact": post(run(404)),  # there is no chain
    "platform/domains/<int:domain_id>/rebase": post(run(202)),
    "platform/domains/<int:domain_id>/publish": post(run()),
    "platform/domains/<int:domain_id>/retire": post(run()),
    "platform/roots/<slug:name>/retire": post(run()),
    "platform/jobs": get(run()),
    "platform/jobs/<uuid:job_id>": get(run()),
    "platform/jobs/<uuid:job_id>/events": get(run()),
    "platform/jobs/<uuid:job_id>/cancel": post(run(409)),
    "platform/jobs/<uuid:job_id>/retry": post(run(409)),
    "platform/jobs/<uuid:job_id>/priority": {"PUT": run(422)},
    "platform/jobs/<uuid:job_id>/requeue": post(run(409)),
    "platform/tenants/<slug:slug>/models/<slug:name>/pin": {"PUT": run(204), "DELETE": run(204)},
}

# The Open Inference Protocol: 400 for a request that asks nothing, and nobody serves the model.
OIP: dict[str, Methods] = {
    "v2": get(everybody(200)),
    **{
        f"v2/models/<model:model>{version}{what}": methods
        for version in ("", "/versions/<int:version>")
        for what, methods in {"": get(read()), "/ready": get(read(503)), "/infer": post(read(400))}.items()
    },
}

# The OpenAI conventions: 400 for a request that asks nothing.
FINE_TUNING_JOB = "v1/fine_tuning/jobs/<str:fine_tuning_id>"
OPENAI: dict[str, Methods] = {
    "v1/embeddings": post(Codes(401, 400, 400, 400, 400, 400)),  # the body says whose model it is
    "v1/chat/completions": post(Codes(401, 400, 400, 400, 400, 400)),
    "v1/completions": post(Codes(401, 400, 400, 400, 400, 400)),
    "v1/models": get(read()),
    "v1/models/<path:model>": {"GET": read(), "DELETE": write(200)},
    "v1/files": {"GET": read(), "POST": write(415)},
    "v1/files/<str:file_id>": {"GET": read(), "DELETE": write(200)},
    "v1/files/<str:file_id>/content": get(read()),
    "v1/files/file-results-<hex:fine_tuning_key>": {
        "GET": read(404),
        "DELETE": write(404),
    },  # it has not ended
    "v1/files/file-results-<hex:fine_tuning_key>/content": get(read(404)),
    "v1/batches": {"GET": read(), "POST": write(400)},
    "v1/batches/<str:batch_key>": get(read()),
    "v1/batches/<str:batch_key>/cancel": post(write(200)),
    "v1/fine_tuning/jobs": {"GET": read(), "POST": write(400)},
    FINE_TUNING_JOB: get(read()),
    f"{FINE_TUNING_JOB}/cancel": post(write(200)),
    f"{FINE_TUNING_JOB}/events": get(read()),
    f"{FINE_TUNING_JOB}/checkpoints": get(read()),
}

PAGES_OF_A_TENANT: dict[str, Methods] = {
    "": get(page()),
    "jobs/running/": get(page()),
    "tree/": get(page()),
    "tree/<slug:kind>/<int:pk>/": get(page()),
    "tree/<slug:kind>/<int:pk>/card/": get(page()),
    "data/": get(page()),
    "data/corpora/new/": form(work()),
    "data/corpora/check/": post(work()),
    "data/corpora/<int:pk>/": get(page()),
    "data/corpora/<int:pk>/delete/": post(work(302)),
    "data/corpora/<int:pk>/rename/": post(work(302)),
    "data/corpora/<int:pk>/tokenizer-fit/": get(page()),
    "data/datasets/<int:pk>/tokenizer-fit/": get(page()),
    "data/datasets/new/": form(work()),
    "data/datasets/check/": post(work()),
    "data/datasets/<int:pk>/": get(page()),
    "data/datasets/<int:pk>/delete/": post(work(302)),
    "data/datasets/<int:pk>/rows/": get(page()),
    "data/datasets/<int:pk>/rows/edit/": post(work(422)),
    "data/datasets/<int:pk>/test-rows/<int:number>/add/": form(work()),
    "data/datasets/<int:pk>/download/": get(page()),
    "data/datasets/<int:pk>/labels/": get(page()),
    "data/datasets/<int:pk>/correct/": post(work()),
    "selected/data/delete/": post(work(302)),
    "selected/models/compare/": post(page(302)),
    "compare/": get(page(302)),
    "selected/models/delete/": post(work(302)),
    "data/datasets/<int:pk>/rename/": post(work(302)),
    "data/sample/": post(work(302)),
    "data/uploads/discard/": post(work(302)),
    "data/uploads/<uuid:pk>/delete/": post(Codes(302, 404, 403, 404, 302, 404)),  # whose it is
    "data/checks/<uuid:pk>/": get(work()),
    "data/checks/<uuid:pk>/bad-rows.csv": get(work()),
    "domains/new/": form(work()),
    "domains/<int:pk>/": get(page()),
    "domains/<int:pk>/update/": form(work()),
    "domains/<int:pk>/compact/": post(work(302)),
    "domains/<int:pk>/rebase/": post(work(302)),
    "domains/<int:pk>/versions/<int:number>/": get(page()),
    "models/": get(page()),
    "models/new/": form(work()),
    "models/import/": form(work()),
    "models/import/adapter/": form(work()),
    "models/<slug:name>/": get(page()),
    "models/<slug:name>/progress/": get(page()),
    "models/<slug:name>/update/": form(work()),
    "models/<slug:name>/edit/": form(work()),
    "models/<slug:name>/rebase/": post(work(302)),
    "models/<slug:name>/rename/": post(work(302)),
    "models/<slug:name>/delete/": post(work(302)),
    "models/<slug:name>/alias/": post(work()),
    "models/<slug:name>/alias/<slug:alias>/remove/": post(work(302)),
    "models/<slug:name>/alias/<slug:alias>/roll-back/": post(work(302)),
    "models/<slug:name>/canary/": post(work()),
    "models/<slug:name>/canary/<slug:alias>/promote/": post(work(302)),
    "models/<slug:name>/canary/<slug:alias>/end/": post(work(302)),
    "models/<slug:name>/versions/<int:number>/": get(page()),
    "models/<slug:name>/versions/<int:number>/policy/": post(work(302)),
    "models/<slug:name>/versions/<int:number>/card/": get(page()),
    "models/<slug:name>/versions/<int:number>/answers/": get(page()),
    "models/<slug:name>/versions/<int:number>/compare/<int:other>/": get(page()),
    "models/<slug:name>/versions/<int:number>/evaluate/": post(work(404)),  # on no dataset
    "versions/<int:pk>/export/": get(work()),
    "roots/<slug:name>/versions/<int:number>/": get(page()),
    "jobs/": get(page()),
    "jobs/<uuid:pk>/": get(page()),
    "jobs/<uuid:pk>/progress/": get(page()),
    "jobs/<uuid:pk>/live/": get(page(204)),  # over
    "jobs/<uuid:pk>/log/": get(page()),
    "jobs/<uuid:pk>/cancel/": post(work(302)),
    "jobs/<uuid:pk>/retry/": post(work(302)),
    "batches/": {"GET": page(), "POST": work()},
    "batches/<uuid:pk>/": get(page()),
    "batches/<uuid:pk>/cancel/": post(work(302)),
    "batches/<uuid:pk>/delete/": post(work(302)),
    "batches/<uuid:pk>/results.jsonl": get(page(404)),  # it has not ended
    "batches/<uuid:pk>/errors.jsonl": get(page(404)),
    "search/": get(page()),
    "api/": get(page(302)),  # leads to keys/
    "playground/": get(page()),
    "playground/send/": post(page()),
    "playground/update/": post(page()),
    "playground/models/": get(page()),
    "usage/": get(page()),
    "usage.csv": get(page()),
    "requests/": get(page()),
    "requests/<int:pk>/": get(page()),
    "requests/<int:pk>/inputs/<int:number>/add/": form(work()),
    "requests.csv": get(page()),
    "audit/": get(own()),
    "audit.csv": get(own()),
    "settings/": {"GET": page(), "POST": own(302)},
    "settings/delete/": post(own(302)),
    "settings/export/": {"GET": own(), "POST": own(302)},
    "settings/export/<uuid:pk>/": get(own()),
    "keys/": get(page()),
    "keys/new/": post(own()),
    "keys/<str:prefix>/rotate/": post(own(302)),
    "keys/<str:prefix>/revoke/": post(own(302)),
    "webhooks/": get(work()),
    "webhooks/new/": post(work()),
    "webhooks/<uuid:endpoint_id>/": get(work()),
    "webhooks/<uuid:endpoint_id>/update/": post(work()),
    "webhooks/<uuid:endpoint_id>/enabled/": post(work(302)),
    "webhooks/<uuid:endpoint_id>/rotate/": post(work(302)),
    "webhooks/<uuid:endpoint_id>/test/": post(work(302)),
    "webhooks/<uuid:endpoint_id>/delete/": post(work(302)),
    "webhooks/<uuid:endpoint_id>/deliveries/<uuid:delivery_id>/replay/": post(work(302)),
    "members/": get(page()),
    "members/leave/": post(page(302)),
    "members/<int:pk>/role/": post(own(302)),
    "members/<int:pk>/remove/": post(own(302)),
    "members/invite/": post(own()),
    "members/invitations/<int:pk>/resend/": post(own()),
    "members/invitations/<int:pk>/withdraw/": post(own(302)),
}


def _below(prefix: str, routes: dict[str, Methods]) -> dict[str, Methods]:
    return {f"{prefix}{route}": methods for route, methods in routes.items()}


DECLARED: dict[str, Methods] = {
    **SITE,
    **INVITED,
    **ACCOUNTS,
    **_below("api/v1/", API),
    # By its key a program is known; people name the tenant, as here by `?tenant=`, or in the path.
    **_below("api/v1/", {route: methods for route, methods in API_OF_A_TENANT.items() if route}),
    **{
        f"api/v1/tenants/<slug:tenant>/{route}".removesuffix("/"): methods
        for route, methods in API_OF_A_TENANT.items()
    },
    **OIP,
    **OPENAI,
    **_below("t/<slug:slug>/", PAGES_OF_A_TENANT),
}
"""Everything but the administration, of which admin_table.py tells."""

ADMIN = "admin/"
