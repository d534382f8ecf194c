"""At which level texts are answered, as callers see it: by a real inference worker, over HTTP."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from inference.cascade.dispatcher import HASH_BYTES, Coverage, Dispatcher
from inference.text.encodings import InferInput
from tenants.usage.models import UsageDay
from tests.integration.inference.api.conftest import CASCADE, Ask, Served
from tests.rounding import up_to_rounding
from tests.unit.tiny import tiny_texts
from versiontree.artifact_store import ArtifactStore
from versiontree.tree.models import Version
from versiontree.tree.services.version_completion import artifacts_attach

pytestmark = pytest.mark.usefixtures("worker")

TEXTS = [*tiny_texts(40), "zebra quixotic", "x"]
GRADED = "acme/graded"

Result = Mapping[str, Any]


def results(ask: Ask, model: str, texts: Sequence[str] = TEXTS, **more: Any) -> list[Result]:
    """The result of each text."""
    answer = ask(model, texts, **more)
    assert answer.status_code == 200, answer.content
    found: list[Result] = answer.json()["results"]
    return found


def went_on(found: Sequence[Result]) -> list[bool]:
    """Which of them were answered by the tables first, and then computed."""
    for result in found:
        assert ("table" in result) == (result["level"] == "full")
    return ["table" in result for result in found]


def expected(
    dispatcher: Dispatcher, from_tables: Sequence[Result], texts: Sequence[str] = TEXTS
) -> list[bool]:
    """Which of the texts that dispatcher sends on, by what the tables say of them."""
    return [
        dispatcher.escalates(
            dispatcher.certainty(result["confidence"], Coverage()), InferInput(text).digest(HASH_BYTES)
        )
        for text, result in zip(texts, from_tables, strict=True)
    ]


@pytest.mark.parametrize(("quality", "level"), [("fast", "table"), ("exact", "full")])
def test_a_quality_names_the_level(ask: Ask, quality: str, level: str) -> None:
    found = results(ask, GRADED, quality=quality)
    assert {result["level"] for result in found} == {level}
    assert not any("table" in result for result in found)


def test_a_version_without_a_cascade_is_computed_in_full(ask: Ask) -> None:
    found = results(ask, "mood", quality="balanced")
    assert found == up_to_rounding(results(ask, "mood", quality="exact"))


def test_profile_of_a_version_decides_which_texts_escalate(ask: Ask) -> None:
    found = results(ask, GRADED, quality="balanced")
    dispatcher = CASCADE.dispatcher(CASCADE.candidate())
    assert went_on(found) == expected(dispatcher, results(ask, GRADED, quality="fast"))
    assert len(set(went_on(found))) == 2, "some go on, and some do not"


def test_the_profile_of_an_evaluation_decides_and_is_named(ask: Ask, tmp_path: Path) -> None:
    CASCADE.save(tmp_path)
    version = Version.unscoped.get(hplm__name="mood")
    folder = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT)).ingest("cascade", tmp_path)
    artifacts_attach(version=version, artifacts=[("cascade", folder)])
    answer = ask("mood", TEXTS, quality="balanced")
    assert answer.json()["model"] == {
        "name": "acme/mood",
        "version": 1,
        "digest": version.digest,
        "cascade": folder.digest,
        "number_format": "float32",
    }
    assert answer["x-hmi-cascade"] == folder.digest
    dispatcher = CASCADE.dispatcher(CASCADE.candidate())
    assert went_on(answer.json()["results"]) == expected(dispatcher, results(ask, "mood", quality="fast"))
    named = ask(GRADED, TEXTS[:1])
    assert "x-hmi-cascade" not in named
    assert "cascade" not in named.json()["model"]


@pytest.mark.parametrize(("target", "chosen"), [(0.7, 0), (0.71, 1), (0.83, 2)])
def test_a_target_takes_the_cheapest_setting_that_reached_it(ask: Ask, target: float, chosen: int) -> None:
    dispatcher = CASCADE.dispatcher(CASCADE.candidates[chosen])
    wanted = expected(dispatcher, results(ask, GRADED, quality="fast"))
    assert went_on(results(ask, GRADED, target=target)) == wanted
    assert went_on(results(ask, GRADED, target=target, quality="balanced")) == wanted


@pytest.mark.parametrize(("target", "quality"), [(0.6, "fast"), (0.86, "exact")])
def test_a_target_takes_a_level_alone_that_reached_it_cheaper_or_comes_nearest(
    ask: Ask, target: float, quality: str
) -> None:
    found, alone = results(ask, GRADED, target=target), results(ask, GRADED, quality=quality)
    assert found == up_to_rounding(alone)


def test_escalated_text_has_the_answers_of_both_levels_weighted(ask: Ask) -> None:
    balanced, fast, exact = (
        results(ask, GRADED, quality=quality) for quality in ("balanced", "fast", "exact")
    )
    weight, seen = CASCADE.candidate().weight, 0
    for answer, table, full in zip(balanced, fast, exact, strict=True):
        if "table" not in answer:
            assert answer == up_to_rounding(table)
            continue
        seen += 1
        assert answer["table"].keys() == {"label", "scores", "confidence"}
        assert answer["table"]["label"] == table["label"]
        assert answer["table"]["scores"] == up_to_rounding(table["scores"])
        both = {
            label: weight * full["scores"][label] + (1 - weight) * score
            for label, score in table["scores"].items()
        }
        assert answer["scores"] == up_to_rounding(both)
        assert answer["confidence"] == up_to_rounding(max(both.values()))
    assert seen


def test_tokens_of_an_escalated_text_show_what_the_tables_had(ask: Ask) -> None:
    for found in results(ask, GRADED, explain=True, quality="balanced"):
        assert {token["level"] for token in found["tokens"]} <= {"trigram", "bigram", "unigram"}
    for found in results(ask, GRADED, explain=True, quality="exact"):
        assert {token["level"] for token in found["tokens"]} <= {"computed"}


def test_escalated_text_is_charged_once(ask: Ask, served: Served) -> None:
    def usage() -> tuple[int, int, int]:
        days = UsageDay.objects.for_tenant(served.world.tenant).filter(model_name="graded")
        return sum(d.requests for d in days), sum(d.inputs for d in days), sum(d.tokens for d in days)

    before, fast = usage(), ask(GRADED, TEXTS, quality="fast").json()["usage"]
    between, answer = usage(), ask(GRADED, TEXTS, quality="balanced").json()
    after = usage()
    assert any(went_on(answer["results"]))
    assert answer["usage"] == fast
    first = tuple(now - then for now, then in zip(between, before, strict=True))
    second = tuple(now - then for now, then in zip(after, between, strict=True))
    assert first == second == (1, len(TEXTS), fast["tokens"])
