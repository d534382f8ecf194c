"""A hundred requests at the same moment: of what a quota allows ten of, ten are made, and never more."""

import io
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier
from time import sleep
from typing import Any

import pytest
from django.db import connection
from rest_framework.test import APIClient

from tenants.accounts.models import ApiKey, Invitation
from tenants.datasets.models import Corpus, Dataset, Upload
from tenants.datasets.selectors.uploads import storage_used
from tenants.usage.models import Quota
from tests.integration.tenants.tus import begin
from tests.integration.versiontree.callers import V1, signed_in, with_key
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.jobs.models import ACTIVE, Job
from versiontree.tree.models import Domain, Hplm, Version

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("in_platform_scope", "upload_root"),
]

CALLERS, ALLOWED = 100, 10
PAUSE_S = 0.05
OF_ACME = f"{V1}/tenants/acme"
ROWS = b"".join(b'{"text": "row %d is here", "label": "%d"}\n' % (n, n % 2) for n in range(30))
LINES = b"".join(b"line number %d of a text\n" % n for n in range(30))


@dataclass(frozen=True)
class Case:
    """How one of a kind is asked for, the ``number``-th; what then is there; the quota that allows ten."""

    ask: Callable[[APIClient, int, Version, TenantFixture], Any]
    made: Callable[[TenantFixture], int]
    quota: dict[str, int]
    keys: bool = True


def _json(client: APIClient, address: str, **body: Any) -> Any:
    return client.post(f"{OF_ACME}/{address}", body, format="json")


def _file(client: APIClient, address: str, field: str, content: bytes, **fields: Any) -> Any:
    """Asks again, as it is told, while the tenant's other forms are being read: so many are at a time."""
    while True:
        file = io.BytesIO(content)
        file.name = f"{field}.jsonl" if field == "train" else f"{field}.txt"
        answer = client.post(f"{OF_ACME}/{address}", {field: file, **fields}, format="multipart")
        if answer.status_code != 429 or answer.json()["error"]["code"] != "queue_full":
            return answer
        sleep(PAUSE_S)


CASES = {
    "hplms": Case(
        lambda client, n, root, home: _json(
            client, "models", name=f"m{n}", parent=root.pk, dataset=home.dataset.pk
        ),
        lambda home: Hplm.objects.for_tenant(home.tenant).count(),
        {"max_models": ALLOWED, "max_active_jobs": 1000},
    ),
    "active jobs": Case(
        lambda client, n, root, home: _json(
            client, "models", name=f"m{n}", parent=root.pk, dataset=home.dataset.pk
        ),
        lambda home: Job.objects.for_tenant(home.tenant).filter(state__in=ACTIVE).count() // 3,
        {"max_models": 1000, "max_active_jobs": 2 * ALLOWED},
    ),
    "domains": Case(
        lambda client, n, root, home: _json(
            client, "domains", name=f"d{n}", parent=root.pk, corpus=home.corpus.pk
        ),
        lambda home: Domain.objects.for_tenant(home.tenant).count(),
        {"max_domains": ALLOWED, "max_active_jobs": 1000},
    ),
    "bytes of uploads": Case(
        lambda client, n, root, home: begin(client, 1000, name=f"u{n}.txt"),
        lambda home: Upload.objects.for_tenant(home.tenant).count(),
        {},
    ),
    "bytes of datasets": Case(
        lambda client, n, root, home: _file(
            client, "datasets", "train", ROWS, name=f"s{n}", task="classification"
        ),
        lambda home: Dataset.objects.for_tenant(home.tenant).exclude(pk=home.dataset.pk).count(),
        {},
    ),
    "bytes of corpora": Case(
        lambda client, n, root, home: _file(client, "corpora", "file", LINES, name=f"c{n}"),
        lambda home: Corpus.objects.for_tenant(home.tenant).exclude(pk=home.corpus.pk).count(),
        {},
    ),
    "keys": Case(
        lambda client, n, root, home: _json(client, "api-keys", name=f"k{n}", scopes=["infer"]),
        lambda home: ApiKey.objects.for_tenant(home.tenant).count(),
        {"max_api_keys": ALLOWED},
        keys=False,
    ),
    "invitations": Case(
        lambda client, n, root, home: _json(
            client, "invitations", email=f"somebody{n}@example.org", role="viewer"
        ),
        lambda home: Invitation.objects.for_tenant(home.tenant).count(),
        {"max_invitations_per_day": ALLOWED},
        keys=False,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", CASES)
def test_a_hundred_at_once_get_what_the_quota_allows(
    what: str, root: Version, acme: TenantFixture, upload_root: Path
) -> None:
    case = CASES[what]
    # Only people make keys and invite.
    first = with_key(acme, "manage") if case.keys else signed_in(acme.owner)
    before = _allow_ten(case, first, root, acme)
    answers = at_once(lambda number: case.ask(_like(first), number, root, acme))
    assert case.made(acme) - before == ALLOWED
    codes = Counter(answer.status_code for answer in answers)
    assert codes == {201: ALLOWED, 429: CALLERS - ALLOWED}, {answer.content for answer in answers}
    refused = {answer.json()["error"]["code"] for answer in answers if answer.status_code == 429}
    assert refused == {"quota_exceeded"}


def _allow_ten(case: Case, client: APIClient, root: Version, home: TenantFixture) -> int:
    """Set the quota; how many there are before. Bytes: ten times those of one."""
    quota = case.quota
    if not quota:
        empty = storage_used(home.tenant)
        assert case.ask(client, CALLERS, root, home).status_code == 201
        full = storage_used(home.tenant)
        size = full - empty
        quota = {"max_storage_bytes": full + size * ALLOWED + size - 1}
    Quota.objects.for_tenant(home.tenant).update(**quota)
    return case.made(home)


def _like(client: Any) -> APIClient:
    """Another client of the same caller: threads share none."""
    other: Any = APIClient()
    other.cookies, other._credentials = client.cookies.copy(), dict(client._credentials)
    made: APIClient = other
    return made


def at_once(ask: Callable[[int], Any]) -> list[Any]:
    """The answers to a hundred requests that begin together, each on a connection of its own."""
    start = Barrier(CALLERS)

    def run(number: int) -> Any:
        start.wait()
        try:
            return ask(number)
        finally:
            connection.close()

    with ThreadPoolExecutor(CALLERS) as pool:
        return list(pool.map(run, range(CALLERS)))
