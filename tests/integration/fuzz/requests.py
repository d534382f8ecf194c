"""What reads the requests that strangers send: JSON, references, ids, the Open Inference Protocol, and all of
the API at its door."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db import connection, transaction
from django.http import HttpResponseBase
from django.test import Client
from hypothesis import strategies as st

from inference.api.validation import fit_inputs, parse_call
from inference.open_inference.errors import is_oip_path
from inference.open_inference.parsers import read_body
from inference.open_inference.requests import parse_request
from inference.open_inference.signatures import signature_of
from inference.openai.ids import FILE, format_id, parse_id
from tenants.base.characters import check_characters
from tenants.base.scope import PLATFORM_SCOPE, TENANT_SCOPE_PREFIX
from tenants.base.strict_json import parse_json
from tenants.datasets.models import Dataset
from tests.integration.fuzz.cases import JSON, Entrance, nearly, pieces
from tests.integration.routes.conf import address, routes
from tests.integration.routes.table import DECLARED
from versiontree.tree.resolution import parse_reference

HEALTH = "v2/health/"
"""Asked by machines that read no more than the status."""
NOT_READY = 503
APIS = ("api/v1/", "v1/", "v2")
BODY = pieces(
    b'{"model": "acme/triage", "inputs": ["a"]}', b"{", b"}", b"[", b"]", b'"name"', b'"inputs"', b":",
    b",",
    b"null", b"NaN", b"1e999", b"-0", b"9" * 5000, b"[" * 2000, b'"\\ud800"', b'"\\u0000"', b"\xff",
    b"\xef\xbb\xbf", b" ",
)  # fmt: skip
OIP = b'{"inputs": [{"name": "TEXT", "shape": [1], "datatype": "BYTES", "data": ["a text"]}]}'
WORDS = pieces(
    b"acme",
    b"/",
    b"triage",
    b"@",
    b"default",
    b":",
    b"3",
    b"0",
    b"-",
    b"A",
    b"..",
    b"\n",
    b"a" * 70,
    b"9" * 12,
).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
INPUT = st.text(max_size=9) | JSON | st.fixed_dictionaries({}, optional=dict.fromkeys(
    ("text", "text_pair", "question", "context", "more"), st.text(max_size=4) | JSON
))  # fmt: skip
# Each part is right about as often as it is not, or hardly any call would be.
MODEL, TEXTS = st.sampled_from(["mood", "acme/mood:1"]), st.lists(st.just("words"), min_size=1, max_size=3)
CALL = st.fixed_dictionaries(
    {"model": MODEL | WORDS | JSON, "inputs": TEXTS | st.lists(INPUT, max_size=4) | JSON},
    optional={
        "timeout_s": st.just(5) | JSON,
        "quality": st.sampled_from(["fast", "balanced", "exact"]) | JSON,
        "target": st.floats(0, 1) | JSON,
        "explain": st.booleans() | JSON,
        "more": JSON,
    },
)
HEADERS = st.dictionaries(
    st.sampled_from(
        ["X-Request-Id", "Idempotency-Key", "X-Timeout-S", "Upload-Length", "Upload-Offset",
         "Upload-Metadata", "Upload-Checksum", "Repr-Digest", "Tus-Resumable", "Accept", "Range",
         "Content-Length", "Content-Encoding", "Inference-Header-Content-Length", "X-Api-Key", "Host",
         "X-HTTP-Method-Override", "X-Forwarded-For", "Expect", "Accept-Encoding"]
    ),
    st.sampled_from(["", "0", "-1", "1" * 30, "*", '"a"', "1.0.0", "gzip", "sha256 AAAA",
    "filename YQ==", "NaN", "1e400"])
    | st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=20),
    max_size=3,
)  # fmt: skip
QUERY = st.dictionaries(
    st.sampled_from(
        ["tenant", "limit", "cursor", "after", "offset", "words", "state", "kind", "from", "to", "by",
        "since",
         "root", "wrong", "against", "change", "gold", "purpose", "order", "format", "branch",
         "revoke_keys"]
    ),
    st.sampled_from(["acme", "umbra", "1", "-1", "9" * 30, "2026-01-01", "cD0x", "bz0x", "true", "\0",
    "é", "", "nan"]) | WORDS,
    max_size=3,
)  # fmt: skip
KINDS = st.sampled_from(
    ["application/json", "application/json; charset=utf-16", "multipart/form-data; boundary=x",
    "text/plain",
     "multipart/form-data", "application/x-www-form-urlencoded", "application/offset+octet-stream",
     "application/octet-stream", "", "junk", "a/b; charset=\x80"]
)  # fmt: skip
FORM = pieces(
    b"--x\r\n", b"--x--\r\n", b'Content-Disposition: form-data; name="file"; filename="a.txt"\r\n',
    b"\r\n", b"one text\r\n",
    b'Content-Disposition: form-data; name="name"\r\n', b"\r\n",
    b"Content-Transfer-Encoding: base64\r\n", b"a,b\r\n",
    b'Content-Disposition: form-data; name="train"; filename="../../t.jsonl"\r\n', b"\x00", b"\xff",
    b"%s" % (b"n" * 300),
)  # fmt: skip
RIGHT: Mapping[str, object] = {
    "name": "made-here", "parent": 1, "corpus": 1, "dataset": 1, "version": 1, "task": "classification",
    "kind": "corpus", "kinds": ["job.failed"], "role": "viewer", "email": "a@example.org",
    "model": "acme/triage", "inputs": ["a"], "input": "a", "url": "https://example.org/", "root": "minilm",
    "scopes": ["infer"], "settings": {"epochs": 1}, "description": "a", "license": "MIT", "enabled": True,
    "purpose": "batch", "files": {}, "upload": "absent", "store": False, "training_file": "file-a",
    "input_file_id": "file-a", "endpoint": "/v1/embeddings", "completion_window": "24h",
    "overlap_s": 0, "alpha": 1,
    "columns": "{}", "labels": "a", "prompt": "a", "messages": [{"role": "user", "content": "a"}],
}  # fmt: skip
FILES: Mapping[str, bytes] = {
    "file": b'{"text": "a", "label": "b"}\n',
    "train": b"text,label\na,b\n",
    "archive": b"PK",
    "data": b"a",
}
# Fields are right as often as not.
AN_OBJECT = st.fixed_dictionaries(
    {}, optional={name: st.just(value) | JSON for name, value in RIGHT.items()}
).map(lambda value: json.dumps(value).encode())
A_FORM = st.fixed_dictionaries(
    {name: st.just(value) | BODY for name, value in FILES.items()},
    optional={name: st.just(value) | JSON | BODY for name, value in RIGHT.items()},
).map(lambda fields: form_of(fields))
JSON_KIND, FORM_KIND = "application/json", "multipart/form-data; boundary=x"
FEW: st.SearchStrategy[Mapping[str, str]] = st.sampled_from([{}, {}, {}, {"tenant": "acme"}])
FOR_OTHERS = re.compile(r"/(platform/|api-keys|members|invitations|takeouts)")
"""Staff and people; a key is refused before its body is looked at."""
CHANGES = {"POST", "PUT", "PATCH"}
READS_FORMS = re.compile(r"/(import(/adapter)?|corpora(/preview)?|datasets(/preview)?|files|parts|batches)$")
METHODS = st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "JUNK"])


def read_json(raw: bytes) -> None:
    """As every body of the API is read."""
    check_characters(parse_json(raw))


def read_infer_call(value: Any) -> None:
    """As an infer request is."""
    call = parse_call(json.loads(json.dumps(value)))
    fit_inputs(call.inputs, task="classification", pairs=False)


def read_reference(sent: str) -> None:
    """A reference means what it is written like."""
    found = parse_reference(sent)
    owner = f"{found.tenant}/" if found.tenant else ""
    which = f":{found.number}" if found.number else f"@{found.alias}"
    assert parse_reference(f"{owner}{found.hplm}{which}") == found
    assert sent.startswith(f"{owner}{found.hplm}")


def read_openai_id(sent: str) -> None:
    """Only what the product writes is an id."""
    assert format_id(FILE, parse_id(FILE, sent, param="file_id")) == sent


def read_oip(sent: tuple[bytes, str | None, str | None]) -> None:
    """As a body of the Open Inference Protocol is."""
    raw, encoding, length = sent
    body = read_body(raw, encoding=encoding or "identity", json_length=length)
    parse_request(body, signature_of("classification", pairs=False))


@dataclass(frozen=True)
class Asked:
    """A request."""

    method: str
    route: str
    junk: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    kind: str
    body: bytes


def fitting(route: str) -> st.SearchStrategy[Asked]:
    """Requests at what is there, with a method that takes a body, and a body of the kind that is read there,
    whose fields have names that mean something somewhere."""
    methods = st.sampled_from(sorted(CHANGES & DECLARED[route].keys()))
    kind, body = (FORM_KIND, A_FORM) if READS_FORMS.search(route) else (JSON_KIND, AN_OBJECT)
    return st.builds(Asked, methods, st.just(route), st.just(""), FEW, FEW, st.just(kind), body)


def form_of(fields: Mapping[str, object]) -> bytes:
    """As `multipart/form-data`; bytes are a file."""
    parts = []
    for name, value in fields.items():
        file = f'; filename="{name}.jsonl"' if isinstance(value, bytes) else ""
        content = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
        parts.append(
            b'--x\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n'
            % (name.encode(), file.encode(), content)
        )
    return b"".join(parts) + b"--x--\r\n"


class RefusedError(Exception):
    """A request was; with the status."""


class Door:
    """The site, which somebody known asks. Whatever they change is undone."""

    def __init__(self, key: str, places: Mapping[str, object]) -> None:
        self._client = Client(raise_request_exception=False, headers={"Authorization": f"Bearer {key}"})
        self._places = places
        self.read: Counter[str] = Counter()
        """How many bodies came past their parser, by their kind."""

    def asked(self) -> st.SearchStrategy[Asked]:
        """Any request at any address of the APIs; four in five are such as could be meant."""
        known = sorted(route for route in routes() if route.startswith(APIS) and HEALTH not in route)
        junk = st.sampled_from(["", "", "", "", "1", "a" * 80, "..", "%00", "é", "0", "9" * 30])
        body = BODY | FORM | st.binary(max_size=30)
        changing = [
            route for route in known if CHANGES & DECLARED[route].keys() and not FOR_OTHERS.search(route)
        ]
        anything = st.builds(Asked, METHODS, st.sampled_from(known), junk, QUERY, HEADERS, KINDS, body)
        forms = st.one_of([fitting(route) for route in changing if READS_FORMS.search(route)])
        objects = st.one_of([fitting(route) for route in changing if not READS_FORMS.search(route)])
        return st.sampled_from([anything, forms, objects, objects, objects]).flatmap(lambda chosen: chosen)

    def ask(self, asked: Asked) -> Exception | None:
        """The answer is no fault of ours, has a name, and says what was wrong in the one shape."""
        places = dict.fromkeys(self._places, asked.junk) if asked.junk else self._places
        path = address(asked.route, places)
        where = f"{path}?{urlencode(asked.query, errors='surrogateescape')}"
        with undone():
            answer = self._client.generic(
                asked.method, where, asked.body, asked.kind, headers=dict(asked.headers)
            )
            content = b"" if answer.streaming else answer.content
        assert answer.status_code < 500 or is_no_worker(answer, content), (asked, content[:500])
        assert answer.headers["x-request-id"]
        self.read[asked.kind] += asked.method in CHANGES and was_parsed(answer, content)
        if answer.status_code < 400:
            return None
        not_ready = is_oip_path(path) and answer.status_code == NOT_READY
        if asked.method != "HEAD" and not not_ready:
            check_shape(answer, content, path)
        return RefusedError(answer.status_code)


def was_parsed(answer: HttpResponseBase, content: bytes) -> bool:
    """Whether what is wrong with the body, if anything, is in its fields."""
    if answer.status_code < 400 or answer.status_code == 409:
        return True
    if answer.status_code not in {400, 404, 422} or b'"code"' not in content:
        return False
    error = json.loads(content)["error"]
    about = (error["param"] or "").partition(".")[0].partition("[")[0]
    return error["code"] != "invalid_json" and (about in RIGHT or about in FILES)


def is_no_worker(answer: HttpResponseBase, content: bytes) -> bool:
    """There is none in these tests, and so no answer of a model."""
    return answer.status_code == NOT_READY and b"database" not in content


def check_shape(answer: HttpResponseBase, content: bytes, path: str) -> None:
    """Of errors: one for all, but for the Open Inference Protocol, whose shape is its own."""
    assert answer.headers["Content-Type"].startswith("application/json"), content[:200]
    error = json.loads(content)["error"]
    if is_oip_path(path):
        assert isinstance(error, str)
    else:
        assert {"type", "code", "message", "param"} <= error.keys()
        assert error["message"]


@contextmanager
def undone() -> Iterator[None]:
    """What is done in here is taken back; it may ask to be the outermost transaction."""
    outermost: Any = transaction.atomic()
    outermost._from_testcase = True
    with outermost:
        yield
        transaction.set_rollback(True)


class Scopes:
    """A session of the application's role, which says anything to be whose it is."""

    def __init__(self, tenant_id: int) -> None:
        connection.ensure_connection()
        self._raw: Any = connection.connection
        self._known = {PLATFORM_SCOPE, f"{TENANT_SCOPE_PREFIX}{tenant_id}"}
        self._table = Dataset._meta.db_table
        near = pieces(
            b"hmi",
            b" ",
            b"tenant",
            b"platform",
            b"%d" % tenant_id,
            b"hmi tenant ",
            b"0",
            b"+",
            b"\t",
            b"x" * 60,
        )
        self.sent = st.sampled_from(sorted(self._known)) | near.map(
            lambda raw: raw.replace(b"\0", b"").decode("latin-1")
        )

    def enter(self, sent: str) -> None:
        """Only the very scope of the tenant, and the platform's, show its rows."""
        self._raw.execute("SELECT set_config('application_name', %s, false)", [sent])
        (seen,) = self._raw.execute(f"SELECT count(*) FROM {self._table}").fetchone()  # noqa: S608
        assert bool(seen) == (sent in self._known), sent


def entrances() -> dict[str, Entrance]:
    """Those that need no database."""
    encodings = st.sampled_from([None, "gzip", "deflate", "br", ""])
    oip = st.tuples(BODY | nearly(OIP), encodings, st.none() | st.text(max_size=5))
    return {
        "JSON": Entrance(15_000, BODY, read_json),
        "infer calls": Entrance(4_000, CALL, read_infer_call),
        "references": Entrance(12_000, WORDS, read_reference),
        "ids": Entrance(4_000, WORDS | st.just("file-" + "a" * 32), read_openai_id),
        "open inference": Entrance(6_000, oip, read_oip),
    }
