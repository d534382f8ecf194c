"""Ids that no row can have are refused in words, wherever a page reads one."""

import pytest
from django.test import Client

from tests.e2e.world import World

IDS = ["9" * 5000, "9" * 25, "\u00b2", "\u0661", "-1"]
READ = [
    "models/new/?dataset={id}",
    "models/new/?step=parent&dataset={dataset}&parent={id}",
    "models/new/?step=review&name=a&dataset={dataset}&parent={id}",
    "models/triage/update/?dataset={id}",
    "models/import/adapter/?parent={id}",
    "domains/new/?parent={id}&corpus={id}",
    "data/corpora/{corpus}/tokenizer-fit/?root={id}",
    "data/datasets/{dataset}/tokenizer-fit/?root={id}",
    "data/datasets/{dataset}/rows/?after={id}",
    "requests/?before={id}",
    "audit/?before={id}",
]
WRITTEN = [
    ("selected/data/delete/", "chosen", "dataset:{id}"),
    ("selected/data/delete/", "chosen", "corpus:{id}"),
    ("models/triage/versions/1/evaluate/", "dataset", "{id}"),
    ("models/new/", "dataset", "{id}"),
    ("models/triage/update/", "dataset", "{id}"),
    ("domains/new/", "parent", "{id}"),
]
STAFF = [
    "tree/domain/?on=root-{id}",
    "tree/hplm/?on=domain-{id}",
    "tree/hplm/?id__exact={id}",
    "tree/hplm/?p={id}&o={id}",
    "tree/hplm/{id}/change/",
    "autocomplete/?app_label=tree&model_name=hplm&field_name=root&term=a&page={id}&to_serve={id}",
]


@pytest.mark.parametrize("given", IDS)
def test_a_page_with_an_id_that_no_row_has_is_no_server_error(
    owner: Client, world: World, given: str
) -> None:
    known = {"dataset": world.dataset.pk, "corpus": world.corpus.pk, "id": given}
    owner.raise_request_exception = False
    answers = {page: owner.get(f"/t/acme/{page.format(**known)}") for page in READ}
    answers |= {
        f"{page} {field}={value}": owner.post(f"/t/acme/{page}", {field: value.format(id=given)})
        for page, field, value in WRITTEN
    }
    owner.force_login(world.admin)
    answers |= {page: owner.get(f"/admin/{page.format(id=given)}") for page in STAFF}
    assert [page for page, answer in answers.items() if answer.status_code >= 500] == []


@pytest.mark.parametrize("page", ["t/acme/selected/data/delete", "t/acme/models/triage/rename", "login"])
def test_nul_in_a_form_is_refused_by_its_field(owner: Client, page: str) -> None:
    answer = owner.post(f"/{page}/", {"chosen": "dataset:1\0", "name": "a\0", "login": "a\0"})
    assert answer.status_code == 422
    assert "NUL character" in answer.content.decode()
