"""The tables of docs/limits.md, and what the code says."""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from hmi_site import settings
from hmi_site.accounts import ALL_ADDRESSES_FACTOR
from hmi_site.http.request_body import (
    BODY_TIMEOUT_S,
    MAX_LARGE_BODIES,
    MAX_LARGE_BODIES_PER_SENDER,
    MAX_SLOW_BODIES,
    MAX_SLOW_BODIES_PER_SENDER,
)
from hmi_site.launcher.children import MAX_CONNECTIONS
from inference.batches.models import MAX_LINES, RETENTION
from inference.batches.services.batches import COMPLETION_WINDOW, MAX_ACTIVE_BATCHES
from inference.batches.services.lifecycle import STORAGE_OVERDRAFT_BYTES
from inference.openai.completion_run import CHECK_CALLER_EVERY_S
from inference.queueing.kept_answers import KEPT_S, MOST_BYTES_OF_TENANT
from inference.text.chat_template import MAX_CHARACTERS, MAX_SOURCE
from inference.text.encode import CHARACTERS_PER_TOKEN
from inference.text.encodings import WINDOWS
from inference.text.template_renderer import MAX_CPU_S, MAX_MEMORY, MAX_TEXT, REFUSED_S, TURN_S
from inference.text.tokenization import MAX_CHARACTERS_PER_TOKEN
from tenants.accounts.services import idempotency
from tenants.accounts.services.api_keys import MAX_OVERLAP
from tenants.accounts.services.invitations import INVITATION_LIFETIME
from tenants.base.strict_json import MAX_DEPTH, MAX_VALUES
from tenants.base.upload_concurrency import (
    MAX_CONCURRENT_DOWNLOADS,
    MAX_CONCURRENT_STREAMS,
    MAX_CONCURRENT_UPLOADS,
    SMALL_BODY_BYTES,
)
from tenants.datasets.formats.dataset import MAX_LABELS, MAX_ROWS
from tenants.datasets.formats.jsonl import MAX_DOCUMENT_BYTES
from tenants.datasets.formats.lines import MAX_LINE_BYTES
from tenants.datasets.formats.splits import LEAK_LIMIT
from tenants.datasets.models.upload import MAX_METADATA_LENGTH
from tenants.datasets.services.files import MAX_FILES
from tenants.datasets.services.uploads import MAX_UPLOADS
from tenants.usage.models import Quota
from tenants.webhooks.http_client import REQUEST_TIMEOUT_S
from tenants.webhooks.services.delivery import DELIVERY_RETENTION, DISABLE_AFTER
from tenants.webhooks.services.endpoints import MAX_ENDPOINTS
from versiontree.jobs.models import BACKGROUND_RETENTION
from versiontree.transfer.archive.adapter import MAX_CONFIG_BYTES
from versiontree.transfer.archive.sandboxed_check import CPU_LIMIT_S
from versiontree.tree.tokenizer_fit import MAX_FITS_AT_ONCE

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "limits.md"
FIXED: dict[str, Any] = {
    "Uploads under way or unused": MAX_UPLOADS,
    "Characters in the metadata of an upload": MAX_METADATA_LENGTH,
    "Pieces of uploads and forms with files at the same time, in each web process": MAX_CONCURRENT_UPLOADS,
    "Wait for the next 240 KiB of a body, or for its end (then `body_too_slow`); a [large"
    " file](api.md#large-files) goes on where it broke off": BODY_TIMEOUT_S,
    "Body of any other request, and of all whose sender has no valid key and is not"
    " signed in": SMALL_BODY_BYTES,
    "Bodies that take more than two seconds to arrive, of one address or tenant": MAX_SLOW_BODIES_PER_SENDER,
    "Bodies that take more than two seconds to arrive, of everybody": MAX_SLOW_BODIES,
    "Bodies of more than 1 MiB on their way, files left out, of one tenant or user": (
        MAX_LARGE_BODIES_PER_SENDER
    ),
    "Bodies of more than 1 MiB on their way, files left out, of everybody": MAX_LARGE_BODIES,
    "Wait until a client has read the next 240 KiB of an answer, or all of it (then its connection is reset;"
    " on Linux)": BODY_TIMEOUT_S,
    "Connections to a web server, idle ones among them; at most half of the files that a process may"
    " open": MAX_CONNECTIONS,
    "Downloads of more than 256 KiB, of a tenant or of one address that nobody is signed in"
    " at": MAX_CONCURRENT_DOWNLOADS,
    "Values in a JSON body, at any depth": MAX_VALUES,
    "Lists and objects within each other in a JSON body": MAX_DEPTH,
    "JSON of an adapter's folder": MAX_CONFIG_BYTES,
    "Processor time to read an adapter, or to write one": CPU_LIMIT_S,
    "Fits of tokenizers to different files of a tenant, in each web process; one is computed at a time, and"
    " cached for an hour": MAX_FITS_AT_ONCE,
    "Pages of a tenant that follow a job live, in each web process; others poll": MAX_CONCURRENT_STREAMS,
    "Characters read of a text for a classifier, tagger or embedding, for each token that the root reads;"
    " what follows counts as cut": MAX_CHARACTERS_PER_TOKEN,
    "Characters read of a context of a question, for each token that the root reads": (
        WINDOWS * CHARACTERS_PER_TOKEN
    ),
    "Characters of the messages of a chat, all together": MAX_CHARACTERS,
    "Characters of the chat template of a decoder": MAX_SOURCE,
    "Characters that a chat template writes": MAX_TEXT,
    "Memory of the process that writes chats by their templates": MAX_MEMORY,
    "Processor time to write a chat by its template": MAX_CPU_S,
    "Until a template that took longer, or too much memory, is tried again for chats of half that length or"
    " more": REFUSED_S,
    "Wait for other chats of the same template (then `queue_full`)": TURN_S,
    "Line of a file": MAX_LINE_BYTES,
    "File of a dataset that is one JSON value, such as an array": MAX_DOCUMENT_BYTES,
    "Rows of a dataset": MAX_ROWS,
    "Labels of a dataset": MAX_LABELS,
    "[Batches](batches.md#limits) that wait or run": MAX_ACTIVE_BATCHES,
    "Files under `/v1/files`": MAX_FILES,
    "Answers of batches [beyond the storage](batches.md#limits)": STORAGE_OVERDRAFT_BYTES,
    "Lines of a [batch](batches.md)": MAX_LINES,
    "Time of a [batch](batches.md)": COMPLETION_WINDOW,
    "Files of a batch": RETENTION,
    "Rows that splits may share": LEAK_LIMIT,
    "Answers to `/infer` kept for an `Idempotency-Key`": KEPT_S,
    "Answers to other requests kept for an `Idempotency-Key`": idempotency.RETENTION,
    "Answers of a tenant kept for an `Idempotency-Key`, the newest": idempotency.MAX_RESPONSES_PER_TENANT,
    "Answers of a tenant to `/infer` kept for an `Idempotency-Key`, the newest": MOST_BYTES_OF_TENANT,
    "Wrong passwords for an account from all addresses, as a multiple of one address's": ALL_ADDRESSES_FACTOR,
    "An answer kept for an `Idempotency-Key`; larger ones are not": idempotency.MAX_RESPONSE_BYTES,
    "Life of an invitation's link": INVITATION_LIFETIME,
    "Life of a password reset link": settings.PASSWORD_RESET_TIMEOUT,
    "Longest overlap of a key and its successor": MAX_OVERLAP,
    "Takeout of a tenant": BACKGROUND_RETENTION,
    "Webhooks of a tenant": MAX_ENDPOINTS,
    "Request to a webhook": REQUEST_TIMEOUT_S,
    "Until a webhook that only fails is disabled": DISABLE_AFTER,
    "Log of webhook deliveries": DELIVERY_RETENTION,
    "Pages of all tenants that follow a job live": settings.HMI_LIVE_STREAMS,
    "Until chats and completions under way end for a revoked or expired key, a removed or signed-out member,"
    " or a suspended tenant": settings.HMI_KEY_CACHE_S + CHECK_CALLER_EVERY_S,
    "Until a revoked key or a suspended tenant is refused by the infer API": settings.HMI_KEY_CACHE_S,
    "Until infer requests follow a moved alias": settings.HMI_MODEL_CACHE_S,
    "Life of an upload after its last piece": settings.HMI_UPLOAD_EXPIRY_H * 3600,
    "Uploads that are checked while the request waits": settings.HMI_CHECK_INLINE_BYTES,
    "Checks of uploads that wait or run, and fine-tunings whose files wait to be read": (
        settings.HMI_MAX_CHECKS
    ),
    "Wrong passwords for one account from one address": settings.HMI_LOCKOUT_FAILURES,
    "Wait after too many wrong passwords": settings.HMI_LOCKOUT_MINUTES * 60,
    "Body of an infer request": settings.HMI_MAX_BODY_BYTES,
    "Least words of a corpus that makes a domain": settings.HMI_CORPUS_MIN_WORDS,
    "Inputs of an infer request": settings.HMI_MAX_INPUTS,
    "One text of an infer request": settings.HMI_MAX_INPUT_BYTES,
    "Archive of a version, unpacked": settings.HMI_IMPORT_MAX_BYTES,
}
RATE_DEFAULTS = {"manage_per_minute": settings.HMI_RATE_MANAGE}
TIMES = {"ms": 0.001, "s": 1, "min": 60, "h": 3600, "days": 24 * 3600}
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
    value = getattr(Quota(), name)
    return RATE_DEFAULTS[name] if value is None else value


@pytest.mark.parametrize(("limit", "value", "changed"), ROWS)
def test_limits_of_the_page_are_those_of_the_code(limit: str, value: float, changed: str) -> None:
    assert value == pytest.approx(said(limit if changed.rstrip(" |") == "fixed" else changed))


def test_every_quota_and_every_fixed_limit_is_on_the_page() -> None:
    changed = " ".join(where for _, _, where in ROWS)
    fields = {field.name for field in Quota._meta.get_fields() if field.name not in {"id", "tenant"}}
    assert fields == set(re.findall(r"quota `(\w+)`", changed))
    assert FIXED.keys() == {limit for limit, _, where in ROWS if where.rstrip(" |") == "fixed"}
    assert len(ROWS) > 35
