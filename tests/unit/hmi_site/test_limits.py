"""The tables of docs/limits.md, and what the code says."""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from hmi_site import settings
from hmi_site.accounts import SEVERAL_ADDRESSES
from hmi_site.http.request_body import LARGE_BODIES, LARGE_BODIES_EACH, SLOW_BODIES, SLOW_BODIES_EACH, WAIT_S
from hmi_site.launcher.children import MOST_CONNECTIONS
from inference.api.parsers import DEEPEST, MOST_VALUES
from inference.batches.models import MOST_LINES
from inference.batches.services import batches
from inference.queueing.kept_answers import KEPT_S, MOST_BYTES_OF_TENANT
from tenants.accounts.services import idempotency as kept_answers
from tenants.accounts.services.api_keys import LONGEST_OVERLAP
from tenants.accounts.services.invitations import LASTS
from tenants.base.upload_concurrency import DOWNLOADS_AT_ONCE, PIECES_AT_ONCE, SMALL_BODY_BYTES
from tenants.datasets.formats.dataset import MOST_LABELS, MOST_ROWS
from tenants.datasets.formats.lines import LONGEST_LINE_BYTES
from tenants.datasets.formats.splits import LEAK_LIMIT
from tenants.datasets.services.files import MOST_FILES
from tenants.datasets.services.uploads import MOST_AT_ONCE
from tenants.usage.models import Quota
from tenants.webhooks.posting import TOTAL_S
from tenants.webhooks.services.delivery import FAILING_FOR, KEPT
from tenants.webhooks.services.endpoints import MOST_ENDPOINTS
from versiontree.transfer.archive.adapter import SAID_BYTES
from versiontree.transfer.archive.trial_load import PROCESSOR_S
from versiontree.transfer.services.takeouts import KEPT_FOR

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "limits.md"
FIXED: dict[str, Any] = {
    "Uploads under way or unused": MOST_AT_ONCE,
    "Pieces of uploads and forms with files at the same time, in each web process": PIECES_AT_ONCE,
    "Wait for the next 240 KiB of a body, or for its end (then `body_too_slow`); a [large"
    " file](api.md#large-files) goes on where it broke off": WAIT_S,
    "Body of any other request, and of all whose sender has no valid key and is not"
    " signed in": SMALL_BODY_BYTES,
    "Bodies that take more than two seconds to arrive, of one address or tenant": SLOW_BODIES_EACH,
    "The same, of all": SLOW_BODIES,
    "Bodies of more than 1 MiB on their way, files left out, of one tenant or user": LARGE_BODIES_EACH,
    "The same, of everybody": LARGE_BODIES,
    "Wait until a client has read the next 240 KiB of an answer, or all of it (then its connection is reset;"
    " on Linux)": WAIT_S,
    "Connections to a web server, idle ones among them; at most half of the files that a process may"
    " open": MOST_CONNECTIONS,
    "Downloads of more than 256 KiB, of a tenant or of one address that nobody is signed in"
    " at": DOWNLOADS_AT_ONCE,
    "Values in a JSON body, at any depth": MOST_VALUES,
    "Lists and objects within each other in a JSON body": DEEPEST,
    "JSON of an adapter's folder": SAID_BYTES,
    "Processor time to read an adapter, or to write one": PROCESSOR_S,
    "Line of a file": LONGEST_LINE_BYTES,
    "Rows of a dataset": MOST_ROWS,
    "Labels of a dataset": MOST_LABELS,
    "[Batches](batches.md#limits) that wait or run": batches.MOST_AT_ONCE,
    "Files under `/v1/files`": MOST_FILES,
    "Answers of batches [beyond the storage](batches.md#limits)": batches.BEYOND_BYTES,
    "Lines of a [batch](batches.md)": MOST_LINES,
    "Time of a [batch](batches.md)": batches.WINDOW,
    "Files of a batch": batches.KEPT_FOR,
    "Rows that splits may share": LEAK_LIMIT,
    "Answers to `/infer` kept for an `Idempotency-Key`": KEPT_S,
    "Answers to other requests kept for one": kept_answers.KEPT_FOR,
    "Answers of a tenant kept for an `Idempotency-Key`, the newest": kept_answers.MOST_OF_A_TENANT,
    "Answers of a tenant to `/infer` kept for one, the newest": MOST_BYTES_OF_TENANT,
    "Wrong passwords for one account from all addresses, times those from one": SEVERAL_ADDRESSES,
    "An answer kept for an `Idempotency-Key`; larger ones are not": kept_answers.MOST_BYTES_EACH,
    "Link of an invitation": LASTS,
    "Link of a new password": settings.PASSWORD_RESET_TIMEOUT,
    "Longest overlap of a key and its successor": LONGEST_OVERLAP,
    "File with all data of a tenant": KEPT_FOR,
    "Webhooks of a tenant": MOST_ENDPOINTS,
    "Request to a webhook": TOTAL_S,
    "Until a webhook that only fails is turned off": FAILING_FOR,
    "Log of what was sent to webhooks": KEPT,
    "Pages that follow a job live": settings.HMI_LIVE_STREAMS,
    "Until a revoked key or a suspended tenant is refused by the infer API": settings.HMI_KEY_CACHE_S,
    "Until an alias that moved is followed": settings.HMI_MODEL_CACHE_S,
    "Life of an upload after its last piece": settings.HMI_UPLOAD_LIFE_H * 3600,
    "Uploads that are checked while the request waits": settings.HMI_CHECK_INLINE_BYTES,
    "Checks of uploads that wait or run; fine-tunings whose files wait to be read": (
        settings.HMI_CHECKS_AT_ONCE
    ),
    "Wrong passwords for one account from one address": settings.HMI_LOCKOUT_FAILURES,
    "Wait after them": settings.HMI_LOCKOUT_MIN * 60,
    "Inputs of an infer request": settings.HMI_MAX_INPUTS,
    "One text of an infer request": settings.HMI_MAX_INPUT_BYTES,
}
TIMES = {"s": 1, "min": 60, "h": 3600, "days": 24 * 3600}
UNITS = {"": 1, "%": 0.01, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, **TIMES}


def rows() -> Iterator[tuple[str, float, str]]:
    """Each limit, its value in seconds, bytes or one by one, and by what it is changed."""
    for line in DOCUMENT.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) == 3 and (found := re.fullmatch(r"([\d,]+) ?([A-Za-z%]*)", cells[1])):
            yield cells[0].removeprefix("| "), int(found[1].replace(",", "")) * UNITS[found[2]], cells[2]


ROWS = list(rows())


def said(place: str) -> float:
    """The number that stands in the code."""
    value = FIXED[place] if place in FIXED else _setting_or_quota(place)
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


def _setting_or_quota(place: str) -> Any:
    name = re.findall(r"`(\w+)`", place)[0]
    if name.startswith("HMI_"):
        return getattr(settings, name)
    return getattr(Quota(), name)


@pytest.mark.parametrize(("limit", "value", "changed"), ROWS)
def test_a_limit_is_what_the_page_says(limit: str, value: float, changed: str) -> None:
    assert value == pytest.approx(said(limit if changed.rstrip(" |") == "fixed" else changed))


def test_every_quota_and_every_fixed_limit_is_on_the_page() -> None:
    changed = " ".join(where for _, _, where in ROWS)
    fields = {field.name for field in Quota._meta.get_fields() if field.name not in {"id", "tenant"}}
    assert fields == set(re.findall(r"quota `(\w+)`", changed))
    assert FIXED.keys() == {limit for limit, _, where in ROWS if where.rstrip(" |") == "fixed"}
    assert len(ROWS) > 35
