"""Who may do what at each address of the administration. A route that is not here fails the walk
(test_walk_admin.py). Those who are no staff are led to sign in at all of them but the doors.

Requests carry no data: a form shown again (200) is the answer to whoever may send it.
"""

from dataclasses import dataclass

OF_A_ROW = "<path:object_id>/"


@dataclass(frozen=True, slots=True)
class Staff:
    """The status for staff without any right, and for administrators."""

    clerk: int
    admin: int


Methods = dict[str, Staff]


def all_staff(code: int) -> Staff:
    """Open to whoever is staff."""
    return Staff(code, code)


def rightful(code: int = 200) -> Staff:
    """For those who were given the right."""
    return Staff(403, code)


NOBODY = all_staff(403)
"""What is not done by hand."""


def looked_at(codes: Staff) -> Methods:
    """A page that takes nothing."""
    return {"GET": codes, "POST": all_staff(405)}


def sent(codes: Staff) -> Methods:
    """A button."""
    return {"GET": all_staff(405), "POST": codes}


def both(codes: Staff) -> Methods:
    """A form at one address."""
    return {"GET": codes, "POST": codes}


def rows(*, add: bool = False, change: bool = False, delete: bool = False) -> dict[str, Methods]:
    """The pages of one kind of row, which administrators look at, and may do this with."""

    def allowed(may: bool) -> Staff:
        return rightful() if may else NOBODY

    return {
        "": both(rightful()),
        "add/": both(allowed(add)),
        OF_A_ROW: {"GET": all_staff(302)},  # to the next
        f"{OF_A_ROW}change/": {"GET": rightful(), "POST": allowed(change)},
        f"{OF_A_ROW}delete/": both(allowed(delete)),
        f"{OF_A_ROW}history/": {"GET": rightful()},
    }


READ = rows()
DELETED = rows(delete=True)
TAKEN = rows(add=True, delete=True)
GROWN = rows(add=True, change=True)
MOVED = rows(change=True)
ALL = rows(add=True, change=True, delete=True)

MODELS: dict[str, dict[str, Methods]] = {
    "account/emailaddress": ALL,
    "auth/group": ALL,
    "axes/accessattempt": DELETED,
    "mfa/authenticator": DELETED,
    "accounts/apikey": rows(add=True),  # shown once, when it is made
    "audit/auditevent": READ,
    "datasets/corpus": TAKEN,
    "datasets/dataset": DELETED,
    "accounts/invitation": READ,
    "accounts/membership": ALL,
    "usage/quota": MOVED,
    "transfer/takeout": {**READ, f"{OF_A_ROW}file/": {"GET": rightful()}},
    "accounts/tenant": GROWN,
    "datasets/upload": DELETED,
    "datasets/uploadcheck": READ,
    "usage/loggedrequest": READ,
    "usage/usageday": READ,
    "accounts/user": {**ALL, "<id>/password/": both(rightful())},
    "webhooks/webhookdelivery": READ,
    "webhooks/webhookendpoint": READ,
    "tree/alias": MOVED,
    "tree/artifact": READ,
    "batches/batch": READ,
    "tree/domain": GROWN,
    "tree/hplm": GROWN,
    "jobs/job": READ,
    "tree/root": GROWN,
    "tree/version": READ,  # the first is a root's; only a model's has a policy to change
}

OWN: dict[str, Methods] = {
    "": {"GET": all_staff(200)},
    "<app_label>/": {"GET": all_staff(302)},  # to the dashboard
    "<url>": both(all_staff(404)),
    "autocomplete/": looked_at(all_staff(403)),  # of nothing
    "demo/<slug:goal>/": sent(rightful()),  # asks for a confirmation
    "jsi18n/": looked_at(all_staff(200)),
    "live/": looked_at(all_staff(200)),
    "password_change/": both(all_staff(200)),
    "password_change/done/": looked_at(all_staff(200)),
    "r/<path:content_type_id>/<path:object_id>/": {"GET": all_staff(404)},  # no row has a page elsewhere
    "search/": {"GET": all_staff(200)},
    "serving/": looked_at(all_staff(200)),
    "serving/<path:worker>/trace.json": looked_at(all_staff(404)),  # no worker is there
    "serving/<path:worker>/<str:command>/": sent(rightful()),  # asks for the name of the last
    "serving/drain/": sent(rightful(302)),
    "settings/": looked_at(rightful()),
}
"""The site's own pages."""

DOORS = {"admin/login/", "admin/logout/"}
"""These are for everybody, and lead to `login/`."""

DECLARED: dict[str, Methods] = {
    **{f"admin/{route}": methods for route, methods in OWN.items()},
    **{
        f"admin/{model}/{route}": methods
        for model, routes in MODELS.items()
        for route, methods in routes.items()
    },
}
"""All but the doors."""
