"""What reads the files that strangers send: corpora, datasets, archives, adapters, tensors."""

import io
import json
import struct
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from inference.batches.endpoints import InferEndpoint
from inference.batches.jsonl import read_lines
from inference.batches.line_formats import InputLineFormat, LineFormat, RequestLineFormat
from inference.errors import HplmError
from inference.hplm.adapter_io.adapter_import import adapter_import
from inference.hplm.artifact_files import read_weights
from tenants.base.errors import HmiError
from tenants.datasets.formats.conversations import (
    convert_conversations,
    detect_task,
    first_row_columns,
    is_conversation,
)
from tenants.datasets.formats.corpus import corpus_report, draft_corpus
from tenants.datasets.formats.dataset import draft_dataset
from tenants.datasets.formats.lines import Source, check_is_text
from tenants.datasets.formats.report import dataset_report
from tenants.datasets.services.stored_files import clean_filename
from tests.e2e.world import tickets_file
from tests.integration.fuzz.cases import JSON, Entrance, check_refusal, nearly, pieces
from tests.integration.versiontree.transfer.adapters.made import lora_members
from tests.settings import home_base
from tests.unit.tiny import tiny_root
from tests.unit.versiontree.forging import Members, zip_of
from tests.unit.versiontree.mutations import (
    bytes_changed,
    content_changed,
    directory_changed,
    mutations,
    names_changed,
)
from tests.unit.versiontree.test_archive_mutations import MEMBERS
from versiontree.transfer.archive.adapter import adapter_open
from versiontree.transfer.archive.layout import json_object
from versiontree.transfer.archive.reader import archive_open
from versiontree.tree.resolution import ResolvedModel

MOST_BYTES = 300_000
BATCH_MODEL = ResolvedModel(
    "acme", "m", "tiny", "r" * 64, 1, "a" * 64, "", "classification", (), 7, pairs=False, policy=""
)
NAMES = st.sampled_from(["a.jsonl", "a.csv", "a.tsv", "a.txt", "a.json", "a.conll", "a", ".jsonl", "é.CSV"])
TASKS = st.sampled_from(
    ["classification", "multilabel", "regression", "tagging", "question_answering", "else"]
)
COLUMNS = st.none() | st.dictionaries(
    st.sampled_from(["text", "label", "tokens", "tags", "text_pair", "answers", "x"]),
    st.sampled_from(["text", "label", "a", "0", ""]),
    max_size=3,
)
TEXT = pieces(
    b'{"text": "one", "label": "a"}', b'{"text": "two", "label": "b"}',
    b'{"text": "three", "text_pair": "x",',
    b'{"tokens": ["a", "b"], "tags": ["B-X", "I-X"]}', b'{"question": "q", "context": "c", "answers": []}',
    b'{"text": "one two", "label": [[0, 3, "X"]], "answer": "accept"}',
    b'["one", {"entities": [[0, 3, "X"]]}]',
    b'{"data": {"text": "one"}, "annotations": [{"result": [{"type": "choices", "from_name": [], "value":',
    b'{"data": [{"paragraphs": [{"context": "c", "qas": [', b'"label": ["a"]', b"['a' 'b']", b"sep=;", b"},",
    b"text,label", b"text\tlabel", b"one,a", b'"a ""quoted"" one",b', b"a B-X", b"b I-X", b"c O", b"\n",
    b"\n",
    b"\n", b"\r\n", b"\r", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\\ud800", b"\xe2\x80\xa8", b'"',
    b"|", b"[", b"{",
    b"NaN", b"1e999", b"9" * 400, b"[" * 300, b"PK\x03\x04", b"\x1f\x8b", b"-DOCSTART-",
)  # fmt: skip
SAID = pieces(
    b"{",
    b"}",
    b"[",
    b"]",
    b'"a"',
    b":",
    b",",
    b"1e999",
    b"NaN",
    b"null",
    b'"\\ud800"',
    b'"\\u0000"',
    b"9" * 30,
)


def in_a_folder(read: Callable[[Path, Any], object]) -> Callable[[Any], object]:
    """Each case has an empty folder in memory."""

    def one(sent: Any) -> object:
        with tempfile.TemporaryDirectory(prefix="hmi-fuzz-", dir=home_base()) as folder:
            return read(Path(folder), sent)

    return one


def read_corpus(folder: Path, sent: tuple[bytes, str]) -> object:
    """As an upload of a corpus is read."""
    content, name = sent
    check_is_text(content[:512], file=name)
    (folder / "sent").write_bytes(content)
    draft = draft_corpus(file=Source(folder / "sent", clean_filename(name)), workspace=folder)
    lines = draft.path.read_text(encoding="utf-8").splitlines()
    assert len(lines) == draft.rows > 0
    return json.dumps(corpus_report(draft), allow_nan=False)


def read_dataset(folder: Path, sent: tuple[bytes, str, str, dict[str, str] | None, str]) -> object:
    """As an upload of a dataset is read."""
    content, name, task, columns, separator = sent
    check_is_text(content[:512], file=name)
    (folder / "sent").write_bytes(content)
    files = {"train": Source(folder / "sent", clean_filename(name))}
    draft = draft_dataset(files=files, task=task, columns=columns, workspace=folder, separator=separator)
    return json.dumps(dataset_report(draft), allow_nan=False)


def read_conversations(folder: Path, content: bytes) -> object:
    """As a file of the OpenAI conventions becomes rows of the product."""
    (folder / "sent").write_bytes(content)
    source = Source(folder / "sent", "rows.jsonl")
    columns = first_row_columns(source)
    detect_task(columns)
    if is_conversation(columns):
        convert_conversations(source, folder / "rows", columns)
        for line in filter(None, (folder / "rows").read_text(encoding="utf-8").split("\n")):
            assert json.loads(line).keys() == {"text", "label"}
    return columns


def read_batch(sent: tuple[bytes, bool]) -> object:
    """As the lines of a batch are read, each of which is asked, or has its refusal written as a line."""
    content, of_requests = sent
    form: LineFormat = InputLineFormat(BATCH_MODEL)
    if of_requests:
        form = RequestLineFormat(BATCH_MODEL, endpoint=InferEndpoint(), url="/v1/infer", reference="m")
    refusal: HmiError | None = None
    for line in read_lines(io.BytesIO(content)):
        parsed = form.parse(line)
        if parsed.error is not None:
            refusal = parsed.error
            check_refusal(refusal)
            _, written = form.format_results(parsed, [])
            assert json.loads(written)
    return refusal


def read_archive(folder: Path, mutate: Callable[[Members], bytes]) -> object:
    """As an import reads an archive."""
    with archive_open(io.BytesIO(mutate(MEMBERS)), max_bytes=MOST_BYTES) as opened:
        opened.unpack(folder)
        return opened.contents


def read_tensors(folder: Path, sent: tuple[Any, bytes, int]) -> object:
    """As the weights of an adapter are read. Its refusals are those of the engine."""
    header, data, off = sent
    written = header if isinstance(header, bytes) else json.dumps(header).encode()
    (folder / "x.safetensors").write_bytes(struct.pack("<Q", max(0, len(written) + off)) + written + data)
    try:
        return read_weights(folder / "x.safetensors", damaged="invalid_archive")
    except HplmError as error:
        return error


class Adapters:
    """Adapters for a tiny root, harmed on their way."""

    def __init__(self, scratch: Path) -> None:
        self._root = scratch / "root"
        root = tiny_root(scratch / "checkpoint")
        root.save(self._root)
        self._members = lora_members(root)

    def unpack(self, folder: Path, mutate: Callable[[Members], bytes]) -> object:
        """As an import reads the folder of an adapter."""
        sent, most = io.BytesIO(mutate(self._members)), len(zip_of(self._members)) * 2
        with adapter_open(sent, max_bytes=most) as opened:
            opened.unpack(folder / "adapter")
            return opened.size

    def carry(self, folder: Path, sent: tuple[dict[str, Any], bool]) -> object:
        """As an adapter becomes a model, with a configuration of a stranger's."""
        said, drop_lower = sent
        config = json.loads(self._members["adapter_config.json"]) | said
        adapter = folder / "adapter"
        adapter.mkdir()
        for name, content in self._members.items():
            (adapter / name).write_bytes(content)
        with suppress(HmiError):
            config = json_object(json.dumps(config).encode(), "adapter_config.json")
        (adapter / "adapter_config.json").write_text(json.dumps(config))
        wanted = {"adapter": adapter, "root": self._root, "out": folder / "out", "labels": [], "task": ""}
        try:
            return adapter_import(wanted | {"pairs": False, "drop_lower": drop_lower})
        except HplmError as error:
            return error


CONVERSATIONS = pieces(
    b'{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}\n',
    b'{"prompt": "a", "completion": "b"}\n', b'{"messages": [', b'{"role": "system", "content": "x"}',
    b'{"role": "user", "content": [{"type": "text", "text": "a"}]}', b'{"role": "assistant"}', b"]}",
    b", ", b"\n",
    b'{"prompt": 1}', b"null", b"[]", b'"\\ud800"', b"\x00",
)  # fmt: skip
LINES = pieces(
    b'"a text"\n', b'{"id": "a", "text": "x"}\n', b'{"text": "', b'\\ud800"', b"}", b"\n", b"\r\n",
    b"null\n", b"[[[",
    b'{"custom_id": "a", "method": "POST", "url": "/v1/infer", "body": {"model": "m", "inputs": ["x"]}}\n',
    b'{"custom_id": "a", "method": "POST", "url": "/v1/infer", "body": {"model": "m", "inputs": ',
    b"}}", b"NaN",
    b"\xef\xbb\xbf", b"\xff\xfe", b"9" * 5000, b'"\\u0000"',
)  # fmt: skip
HARM = st.one_of(bytes_changed(), names_changed(), content_changed(), directory_changed())
TENSOR = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F32", "F16", "BF16", "I64", "BOOL", "F8_E4M3", "X", 1]),
        "shape": st.lists(st.integers(-1, 4) | st.just(2**62), max_size=3) | JSON,
        "data_offsets": st.lists(st.integers(0, 16) | st.just(2**63), min_size=2, max_size=2) | JSON,
    }
)
HEADER = st.dictionaries(st.sampled_from(["a", "b", "__metadata__", ""]), TENSOR | JSON, max_size=3) | SAID
LORA_SAID = st.dictionaries(
    st.sampled_from(
        ["peft_type", "task_type", "r", "lora_alpha", "bias", "use_dora", "target_modules", "rank_pattern",
         "alpha_pattern", "modules_to_save", "use_rslora", "fan_in_fan_out", "base_model_name_or_path"]
    ),
    JSON | st.sampled_from(["LORA", "all", "lora_only", True, [".*"], {"(a+)+$": 3}, {"query": 2},
    "query", -1, 0]),
    max_size=3,
)  # fmt: skip


def as_table(rows: bytes) -> bytes:
    """The same rows as CSV."""
    found = map(json.loads, rows.splitlines())
    return "\n".join(["text,label", *(f'"{row["text"]}",{row["label"]}' for row in found)]).encode()


def entrances(scratch: Path) -> dict[str, Entrance]:
    """All of them."""
    adapters = Adapters(scratch)
    rows = tickets_file().read()
    dataset = st.tuples(
        TEXT | nearly(rows) | nearly(as_table(rows)),
        NAMES,
        TASKS,
        COLUMNS,
        st.sampled_from(["|", ",", "", "||", "\n"]),
    )
    tensors = st.tuples(HEADER, st.binary(max_size=16), st.sampled_from([0, 0, 0, -1, 1, 2**40]))
    return {
        "corpora": Entrance(12_000, st.tuples(TEXT, NAMES), in_a_folder(read_corpus)),
        "datasets": Entrance(14_000, dataset, in_a_folder(read_dataset)),
        "conversations": Entrance(6_000, CONVERSATIONS, in_a_folder(read_conversations)),
        "batches": Entrance(4_000, st.tuples(LINES, st.booleans()), read_batch),
        "archives": Entrance(5_000, mutations, in_a_folder(read_archive)),
        "adapters": Entrance(5_000, HARM, in_a_folder(adapters.unpack)),
        "configurations": Entrance(500, st.tuples(LORA_SAID, st.booleans()), in_a_folder(adapters.carry)),
        "tensors": Entrance(5_000, tensors, in_a_folder(read_tensors)),
        "JSON of archives": Entrance(
            8_000, SAID | nearly(b'{"a": [1, "x"]}'), lambda sent: json_object(sent, "x.json")
        ),
    }
