"""What a root's tokenizer makes of texts."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from pydoc_data.topics import topics

import pytest
from tokenizers import Tokenizer
from tokenizers.models import BPE, WordLevel
from tokenizers.pre_tokenizers import ByteLevel, Whitespace
from tokenizers.processors import TemplateProcessing
from tokenizers.trainers import BpeTrainer

from tenants.base.errors import ErrorCode
from tenants.datasets.formats.examples import (
    ClassificationExample,
    Example,
    MultilabelExample,
    QuestionAnsweringExample,
    TaggingExample,
)
from tenants.datasets.formats.sampling import (
    RowLocation,
    SampledFile,
    Texts,
    corpus_texts,
    dataset_texts,
    sample,
)
from tests.other_threads import turns_meanwhile
from tests.unit.tenants.files import refused
from versiontree.tree.tokenized_rows import (
    FOREIGN,
    LongTextPolicy,
    TokenizerFit,
    TokenRow,
    fit_warnings,
    tokenize_rows,
    tokenizer_fit,
)

ENGLISH = (
    "The river runs through the old town and carries stones to the sea.",
    "Patients were given a small dose of the drug and watched for two weeks.",
    "She opened the window because the room was too warm in summer.",
    "The council voted on Tuesday to close the old bridge for repairs until the spring.",
)
TERMS = (
    "Loss of Trp53 cooperates with oncogenic Kras to drive pancreatic ductal adenocarcinoma in mice.",
    "Patients with chronic obstructive pulmonary disease often have comorbid cardiovascular disease.",
)
RUSSIAN = (
    "Река течёт через старый город и несёт камни к морю.",
    "Пациенты получали небольшую дозу лекарства и находились под наблюдением две недели.",
)
CHINESE = ("这条河流穿过古老的城镇，把石头带到大海。", "患者服用了小剂量的药物，并观察了两周。")


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    """One that knows five words and is set to cut after three, as downloaded ones are."""
    words = ["[UNK]", "the", "cat", "sat", "on", "mat"]
    made = Tokenizer(WordLevel({word: place for place, word in enumerate(words)}, unk_token="[UNK]"))
    made.pre_tokenizer = Whitespace()
    made.enable_truncation(3)
    made.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


@pytest.fixture(scope="module")
def byte_level(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level one of RoBERTa's kind that learnt the English of Python's own manual."""
    made = Tokenizer(BPE(unk_token="<unk>"))
    made.pre_tokenizer = ByteLevel(add_prefix_space=False)
    alphabet = ByteLevel.alphabet()
    marks = ["<s>", "</s>", "<unk>"]
    trainer = BpeTrainer(
        vocab_size=8000, initial_alphabet=alphabet, special_tokens=marks, show_progress=False
    )
    made.train_from_iterator(topics.values(), trainer)
    made.post_processor = TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    path = tmp_path_factory.mktemp("byte-level") / "tokenizer.json"
    made.save(str(path))
    return path


def placed(rows: Sequence[Texts]) -> Iterator[tuple[RowLocation, Texts]]:
    return ((RowLocation(number), texts) for number, texts in enumerate(rows, start=1))


def fit_of(rows: Sequence[Texts], tokenizer: Path, **changes: object) -> TokenizerFit:
    asked: dict[str, object] = {"max_tokens": 64, "total_rows": len(rows)}
    return tokenizer_fit(placed(rows), tokenizer=tokenizer, **(asked | changes))  # type: ignore[arg-type]


def texts(*each: str) -> list[Texts]:
    return [(text,) for text in each]


def test_unknown_and_cut_off_rows_are_told_with_their_numbers(tokenizer: Path) -> None:
    rows = [("the cat sat",), ("die Katze sass",), ("the cat sat on the mat",), ("the", "cat sat on the")]
    fit = fit_of(rows, tokenizer, max_tokens=4)
    assert (fit.rows, fit.tokens, fit.unknown_tokens, fit.longest) == (4, 17, 3, 6)
    assert (fit.unknown_share, fit.truncated_share) == (3 / 17, 0.5)
    unknown, long = fit_warnings(fit)
    assert unknown == f"17.6% of the tokens are unknown to the root's vocabulary (row 2). {FOREIGN}"
    assert long.startswith("50.0% of the rows are longer than the 4 tokens the root reads (")
    assert long.endswith("(the longest has 6; rows 3, 4); they are truncated.")


def test_rows_are_named_by_split_and_only_the_first(tokenizer: Path) -> None:
    places = [
        *(RowLocation(row, "train") for row in range(1, 10)),
        RowLocation(1, "test"),
        RowLocation(2, "test"),
    ]
    rows = ((place, ("Hund",)) for place in places)
    (told,) = fit_warnings(tokenizer_fit(rows, tokenizer=tokenizer, max_tokens=8, total_rows=44))
    assert "(rows 1, 2, 3, 4, 5, 6, 7, 8, 9 of train; row 1 of test, …)" in told
    assert told.endswith("This is from a sample of 11 of 44 rows.")


def test_the_marks_around_a_text_count_for_its_length_but_not_as_known(byte_level: Path) -> None:
    fit = fit_of([("the",), ("the", "the")], byte_level, max_tokens=3)
    assert (fit.tokens, fit.words, fit.longest) == (3, 3, 2 + 4)
    assert [str(place) for place in fit.long.first] == ["2"]


@pytest.mark.parametrize(
    ("too_long", "then"),
    [(LongTextPolicy.CUT, "they are truncated."), (LongTextPolicy.PIECES, "they are split into pieces.")],
)
def test_warning_says_what_happens_to_long_rows(tokenizer: Path, too_long: LongTextPolicy, then: str) -> None:
    fit = fit_of(texts("the cat sat"), tokenizer, max_tokens=2, too_long=too_long)
    (told,) = fit_warnings(fit)
    assert told.endswith(then)
    assert fit.truncated_share == (1.0 if too_long is LongTextPolicy.CUT else 0.0)


def test_rows_read_in_windows_have_no_warning(tokenizer: Path) -> None:
    fit = fit_of([("the cat", "the cat sat")], tokenizer, max_tokens=2, too_long=LongTextPolicy.WINDOWS)
    assert fit_warnings(fit) == []
    assert (fit.long_share, fit.truncated_share) == (1.0, 0.0)


@pytest.mark.parametrize("foreign", [RUSSIAN, CHINESE], ids=["Russian", "Chinese"])
def test_another_script_is_noticed_though_bytes_are_never_unknown(
    byte_level: Path, foreign: Sequence[str]
) -> None:
    fit = fit_of(texts(*ENGLISH, *foreign), byte_level)
    assert (fit.byte_level, fit.unknown_share) == (True, 0.0)
    assert [place.row for place in fit.unknown.first] == [5, 6]
    (told,) = fit_warnings(fit_of(texts(*foreign), byte_level, max_tokens=512))
    assert told.startswith(f"A word takes {fit_of(texts(*foreign), byte_level).tokens_per_word:.1f} tokens")
    assert told.endswith(
        "which is a lot (rows 1, 2). Is this text in a language the root was not trained on?"
    )


@pytest.mark.parametrize("known", [ENGLISH, TERMS], ids=["prose", "terms"])
def test_english_is_known_to_a_byte_level_vocabulary_terms_and_all(
    byte_level: Path, known: Sequence[str]
) -> None:
    assert fit_warnings(fit_of(texts(*known), byte_level)) == []


def test_only_byte_level_vocabularies_are_held_to_tokens_a_word(tmp_path: Path) -> None:
    pieces = Tokenizer(BPE({"a": 0, "b": 1, "[UNK]": 2}, [], unk_token="[UNK]"))
    pieces.pre_tokenizer = Whitespace()
    pieces.save(str(tmp_path / "pieces.json"))
    fit = fit_of(texts("abababab"), tmp_path / "pieces.json")
    assert (fit.byte_level, fit.tokens_per_word, fit.unknown.rows) == (False, 8.0, 0)
    assert fit_warnings(fit) == []


def test_a_tokenizer_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    refused(ErrorCode.NOT_FOUND, lambda: fit_of([], tmp_path / "none.json"))
    (tmp_path / "bad.json").write_text("{}")
    refused(ErrorCode.UNSUPPORTED_CHECKPOINT, lambda: fit_of([], tmp_path / "bad.json"))


def part(folder: Path, lines: Sequence[str], split: str | None = None) -> SampledFile:
    path = folder / (split or "corpus")
    path.write_text("".join(lines), encoding="utf-8")
    return SampledFile(path, len(lines), path.stat().st_size, split)


def test_rows_are_drawn_evenly_from_every_split(tmp_path: Path) -> None:
    parts = [
        part(
            tmp_path,
            [ClassificationExample(f"{split} {row}", "x").to_line() for row in range(1, rows + 1)],
            split,
        )
        for split, rows in (("train", 70), ("dev", 20), ("test", 10))
    ]
    drawn = list(sample(parts, dataset_texts, max_rows=10))
    assert [(place.split, place.row) for place, _ in drawn] == [
        *(("train", row) for row in (1, 11, 21, 31, 41, 51, 61)),
        *(("dev", row) for row in (1, 11)),
        ("test", 1),
    ]
    assert all(read == (f"{place.split} {place.row}",) for place, read in drawn)


def test_sample_of_long_rows_is_smaller(tmp_path: Path) -> None:
    whole = part(tmp_path, ["é" * 50 + "\n"] * 25)
    drawn = sample([whole], corpus_texts, max_bytes=whole.size // 4)
    assert [place.row for place, _ in drawn] == [1, 6, 11, 16, 21]
    assert len(list(sample([whole], corpus_texts))) == 25


def test_both_kinds_of_upload_give_their_rows(tmp_path: Path) -> None:
    corpus = part(tmp_path, ["one\n", "two\u2028three\n"])
    assert [read for _, read in sample([corpus], corpus_texts)] == [("one",), ("two\u2028three",)]
    kinds: list[Example] = [
        ClassificationExample("a", "x", "b"),
        MultilabelExample("c", ("x", "y")),
        TaggingExample(("a", "b"), ("O", "O")),
        QuestionAnsweringExample("q", "c", ()),
    ]
    train = part(tmp_path, [example.to_line() for example in kinds], "train")
    assert [read for _, read in sample([train], dataset_texts)] == [("a", "b"), ("c",), ("a b",), ("q", "c")]


def test_other_threads_run_while_a_long_row_is_read(byte_level: Path) -> None:
    row = RowLocation(1), ("0123456789" * 10_000,) * 2
    read = partial(tokenizer_fit, [row], tokenizer=byte_level, max_tokens=512, total_rows=1)
    assert turns_meanwhile(read) >= 10


def test_a_sample_of_rows_longer_than_most_ends(tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt"
    path.write_text(("x" * 100 + "\n" + "y\n" * 9) * 100)
    file = SampledFile(path, 1_000, path.stat().st_size)
    read = [texts[0] for _, texts in sample([file], corpus_texts, max_rows=100, max_bytes=2_000)]
    assert set(map(len, read)) == {100}
    assert sum(map(len, read)) <= 2 * 2_000 + 100


WORDS = ("[UNK]", "[CLS]", "[SEP]", *"abcdefgh")


@pytest.fixture
def framing_tokenizer(tmp_path: Path) -> Path:
    """Knows eight words of a letter; frames a text as BERT does."""
    made = Tokenizer(WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.pre_tokenizer = Whitespace()
    made.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    made.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


@pytest.mark.parametrize(
    ("texts", "read", "cut"),
    [
        (("a b z",), "a b [UNK]", ""),
        (("a b c d e f g h",), "a b c d e", "f g h"),
        (("a b c d e f", "g h"), "a b g h", "c d e f"),
        (("a", "b c d e f"), "a b c d", "e f"),
        (("a b c", "d e f"), "a b d e", "c f"),
    ],
)
def test_long_row_is_truncated_at_its_longer_text(
    framing_tokenizer: Path, texts: tuple[str, ...], read: str, cut: str
) -> None:
    place = RowLocation(1, "train")
    (row,) = tokenize_rows([(place, texts)], tokenizer=framing_tokenizer, max_tokens=7)
    assert row == TokenRow(place, read.split(), cut.split(), len(cut.split()))


def test_shown_part_of_truncated_tokens_is_bounded(framing_tokenizer: Path) -> None:
    (row,) = tokenize_rows([(RowLocation(1), ("a " * 50,))], tokenizer=framing_tokenizer, max_tokens=7)
    assert (len(row.tokens), len(row.truncated), row.truncated_count) == (5, 12, 45)
