"""What the demo's datasets are made of: sentences and labels are what the tasks say."""

from collections import Counter

import pytest

from demo import appointments, prose, translations
from demo.prose import reading_ease
from demo.splits import SPLITS


def test_a_sentence_is_labelled_with_its_language() -> None:
    languages = {text: language for split in SPLITS for text, language in translations.sentences(split)}
    assert set(languages.values()) == {translations.ENGLISH, *translations.LANGUAGES.values()}
    assert languages["This field is required."] == "English"
    assert languages["Dieses Feld ist zwingend erforderlich."] == "German"
    assert languages["Ce champ est obligatoire."] == "French"


def test_a_sentence_is_in_the_split_of_its_translations() -> None:
    [split] = [
        split for split in SPLITS if ("This field is required.", "English") in translations.sentences(split)
    ]
    assert ("Dieses Feld ist zwingend erforderlich.", "German") in translations.sentences(split)


@pytest.mark.parametrize("split", SPLITS)
def test_tags_of_appointments_are_spans_of_persons_places_and_times(split: str) -> None:
    kinds = Counter[str]()
    for words in appointments.sentences(split):
        before = "O"
        for _, tag in words:
            assert tag[:2] != "I-" or before[2:] == tag[2:]
            kinds[tag[2:]] += tag.startswith("B-")
            before = tag
    assert {kind for kind, count in kinds.items() if count > 100} == {"PERSON", "PLACE", "TIME"}


def test_no_person_nor_place_is_in_two_splits() -> None:
    named = [
        {
            word
            for words in appointments.sentences(split)
            for word, tag in words
            if tag in ("B-PERSON", "B-PLACE")
        }
        for split in SPLITS
    ]
    assert not set.intersection(named[0], named[1] | named[2])
    assert not set.intersection(named[1], named[2])


def test_reading_ease_falls_with_syllables_and_with_words() -> None:
    short = "The cat sat on the mat."
    assert reading_ease(short) == 100.0
    assert reading_ease("Notwithstanding considerable opposition, implementation proceeded.") == 0.0
    assert reading_ease("The dog ran into the garden and slept.") > reading_ease(
        "The dog ran into the garden of the house of my brother and slept under a tree until the evening."
    )


@pytest.mark.parametrize("split", SPLITS)
def test_the_values_of_sentences_are_their_reading_ease(split: str) -> None:
    sentences = list(prose.sentences(split))
    assert len(sentences) > 100
    assert all(value == reading_ease(sentence) for sentence, value in sentences)
