"""What tells the kinds of task apart: labels, targets, losses and answers."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from inference.errors import HplmError
from inference.hplm.heads import Head
from inference.hplm.root import Root
from tests.unit.workers.training.conftest import Branch
from workers.training.datasets import Example, SpanAnswer
from workers.training.prepared_split import imbalance
from workers.training.tasks import task_kind
from workers.training.tasks.base import IGNORE_INDEX, ExampleOutputs


@pytest.fixture
def root(branch: Branch) -> Root:
    return branch.loaded


@pytest.mark.parametrize(
    ("task", "example"),
    [
        ("classification", Example("t", labels=("a",))),
        ("multilabel", Example("t", labels=("a",))),
        ("tagging", Example(words=("t", "u"), labels=("O", "O"))),
        ("regression", Example("t", value=3.0)),
    ],
)
def test_a_split_that_has_nothing_to_tell_apart_is_refused(task: str, example: Example) -> None:
    with pytest.raises(HplmError) as caught:
        task_kind(task).fit([example] * 3)
    assert caught.value.code == "one_label"


def test_tagging_always_knows_how_to_begin_an_entity_and_to_stay_outside() -> None:
    kind = task_kind("tagging")
    kind.fit([Example(words=("t",), labels=("I-x",))])
    assert kind.labels == ["B-x", "I-x", "O"]


def test_a_tag_is_learnt_at_the_first_token_of_its_word(root: Root) -> None:
    kind = task_kind("tagging", ["B-x", "O"])
    example = Example(words=("river", "zebra", "\u200b", "stone"), labels=("O", "B-x", "O", "O"))
    (encoding,) = kind.encode(example, root.tokenizer)
    pieces = len(root.tokenizer.encode("zebra").ids) - 2
    assert pieces > 1
    target = kind.target(example, encoding).tolist()
    assert target == [IGNORE_INDEX, 1, 0, *[IGNORE_INDEX] * (pieces - 1), 1, IGNORE_INDEX]


def test_a_word_that_was_cut_off_or_has_no_token_belongs_to_no_entity(root: Root) -> None:
    kind = task_kind("tagging", ["B-x", "O"])
    example = Example(words=("\u200b", *("river",) * 200), labels=("O",) * 201)
    (encoding,) = kind.encode(example, root.tokenizer)
    everything = np.tile([1.0, 0.0], (len(encoding), 1))
    tags = kind.predict(ExampleOutputs(example, [encoding], [everything]))
    read = root.config.max_tokens - 2
    assert tags == ["O", *["B-x"] * read, *["O"] * (200 - read)]


@pytest.mark.parametrize("weights", [None, torch.tensor([1.0, 3.0])])
def test_unknown_tags_and_padding_do_not_count_in_the_loss(weights: torch.Tensor | None) -> None:
    kind = task_kind("tagging")
    outputs = torch.tensor([[[2.0, 0.0], [0.0, 1.0], [9.0, 9.0]]])
    known = kind.loss(outputs[:, :2], [np.asarray([0, 1])], weights)
    padded = kind.loss(outputs, [np.asarray([0, 1])], weights)
    unknown = kind.loss(outputs, [np.asarray([0, 1, IGNORE_INDEX])], weights)
    assert known == padded == unknown
    losses = torch.nn.functional.cross_entropy(outputs[0, :2], torch.tensor([0, 1]), weights)
    torch.testing.assert_close(known, losses)


def test_a_batch_without_a_single_known_tag_teaches_nothing() -> None:
    outputs = torch.randn(1, 2, 3, requires_grad=True)
    loss = task_kind("tagging").loss(outputs, [np.full(2, IGNORE_INDEX)], None)
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss == 0
    assert outputs.grad is not None
    assert bool((outputs.grad == 0).all())


def test_every_label_of_a_text_is_learnt_and_those_above_the_threshold_answered(root: Root) -> None:
    labels = ["a", "b", "c"]
    kind, strict = (task_kind("multilabel", labels, threshold) for threshold in (0.5, 0.8))
    example = Example("river", labels=("c", "a"))
    encodings = kind.encode(example, root.tokenizer)
    assert kind.target(example, encodings[0]).tolist() == [1, 0, 1]
    outputs = ExampleOutputs(example, encodings, [np.asarray([0.0, -1.0, 2.0])])
    assert kind.predict(outputs) == ("a", "c")
    assert strict.predict(outputs) == ("c",)


def test_a_regression_learns_standardised_numbers_and_answers_in_the_unit_of_the_data(root: Root) -> None:
    kind = task_kind("regression")
    examples = [Example("t", value=value) for value in (10.0, 14.0)]
    kind.fit(examples)
    (encoding,) = kind.encode(examples[0], root.tokenizer)
    assert [kind.target(example, encoding).item() for example in examples] == [-1, 1]
    assert kind.predict(ExampleOutputs(examples[0], [encoding], [np.asarray([0.5])])) == 13
    head = Head(torch.ones(1, 4), torch.zeros(1), "cls")
    features = torch.full((1, 4), 0.125)
    assert float(head.apply(features)) == 0.5
    assert float(kind.serving_head(head).apply(features)) == 13
    assert float(kind.training_head(kind.serving_head(head)).apply(features)) == 0.5


def test_a_class_that_does_not_occur_makes_no_imbalance() -> None:
    assert imbalance({"answered": 9, "unanswerable": 0}) == 1
    assert imbalance({"a": 9, "b": 3, "c": 0}) == 3
    assert imbalance({}) == 1


class TestQuestions:
    """Question answering over contexts that do not fit."""

    CONTEXT = " ".join(["river"] * 70 + ["silver", "cloud"] + ["stone"] * 20)
    AT = CONTEXT.index("silver")
    EXAMPLE = Example("what", CONTEXT, answers=(SpanAnswer("silver cloud", AT),))

    def test_every_window_holds_the_question_and_windows_overlap(self, root: Root) -> None:
        encodings = task_kind("question_answering").encode(self.EXAMPLE, root.tokenizer)
        assert len(encodings) > 1
        question = root.tokenizer.encode(self.EXAMPLE.text).ids[1:-1].tolist()
        spans = []
        for encoding in encodings:
            assert encoding.ids[encoding.sequence == 0].tolist() == question
            assert len(encoding) <= root.config.max_tokens
            inside = np.flatnonzero(encoding.sequence == 1)
            spans.append((encoding.offsets[inside[0]][0], encoding.offsets[inside[-1]][1]))
        assert spans[0][0] == 0
        assert spans[-1][1] == len(self.CONTEXT)
        assert all(later[0] < earlier[1] for earlier, later in pairwise(spans))

    def test_the_windows_that_hold_the_answer_point_at_it_the_others_at_none(self, root: Root) -> None:
        kind = task_kind("question_answering")
        encodings = kind.encode(self.EXAMPLE, root.tokenizer)
        told = []
        for encoding in encodings:
            first, last = kind.target(self.EXAMPLE, encoding).tolist()
            if first:
                told.append(self.CONTEXT[encoding.offsets[first][0] : encoding.offsets[last][1]])
        assert 1 <= len(told) < len(encodings)
        assert set(told) == {"silver cloud"}

    @pytest.mark.parametrize("context", ["(silver)", "stone,silver,stone"])
    def test_an_answer_that_touches_its_neighbours_is_learnt_without_them(
        self, root: Root, context: str
    ) -> None:
        kind = task_kind("question_answering")
        example = Example("what", context, answers=(SpanAnswer("silver", context.index("silver")),))
        (encoding,) = kind.encode(example, root.tokenizer)
        first, last = kind.target(example, encoding)
        assert context[encoding.offsets[first][0] : encoding.offsets[last][1]] == "silver"

    def test_the_best_span_of_all_windows_is_the_answer(self, root: Root) -> None:
        kind = task_kind("question_answering")
        encodings = kind.encode(self.EXAMPLE, root.tokenizer)
        outputs = []
        for encoding in encodings:
            first, last = kind.target(self.EXAMPLE, encoding)
            logits = np.zeros((len(encoding), 2), np.float32)
            logits[first, 0], logits[last, 1] = 5.0, 5.0
            outputs.append(logits)
        assert kind.predict(ExampleOutputs(self.EXAMPLE, encodings, outputs)) == "silver cloud"

    def test_a_question_without_an_answer_is_counted_as_such(self) -> None:
        counts = task_kind("question_answering").class_counts([self.EXAMPLE, Example("why", "river")])
        assert counts == {"answered": 1, "unanswerable": 1}
