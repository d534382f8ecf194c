"""Artifacts of strangers are tried in a process of their own, whatever becomes of it."""

import io
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from django.core.management import CommandError, call_command
from pytest_django import Settings
from safetensors.torch import load_file, save_file

from inference.artifact_check import run_request
from inference.cascade.dispatcher import OutputKind
from inference.cascade.profile import Candidate, CascadeProfile, LevelProfile
from tenants.base.errors import ErrorCode, HmiError
from tests.integration.versiontree.transfer.site import (
    Models,
    Site,
    artifacts_of,
    branch_of,
    everything,
    predictions,
)
from versiontree.transfer.archive.sandboxed_check import ArtifactCheck, artifacts_check
from versiontree.tree.models import Version

Move = Callable[[], None]
SOUND = {"task": "classification", "pairs": False}


@pytest.fixture
def wanted(models: Models, tmp_path: Path) -> dict[str, Any]:
    """A trial of copies of everything."""
    folders = {f"{kind}-{role}": folder for kind in ("root", "domain", "hplm")
               for role, folder in getattr(models, kind).items()}  # fmt: skip
    for name, folder in folders.items():
        shutil.copytree(folder, tmp_path / name)
    keep_text(tmp_path)
    place = {name: str(tmp_path / name) for name in folders}
    return {
        "root": place["root-root"],
        "root_is_new": True,
        "lowers": [place["domain-lower"], place["root-lower"]],
        "plots": [place["domain-plot"], place["root-plot"]],
        "ends": True,
        "hplm": place["hplm-hplm"],
        "cascade": None,
    }


def change_json(file: Path, **changes: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def change_weights(file: Path, change: Callable[[torch.Tensor], torch.Tensor], name: str = "") -> None:
    weights = load_file(file)
    name = name or next(iter(weights))
    save_file(weights | {name: change(weights[name])}, file)


def keep_text(at: Path, **changes: list[int]) -> None:
    """Two sequences of held-out text beside the root, as a conversion keeps them."""
    parts = {"ids": [2, 9, 9, 3, 2, 3], "types": [0] * 6, "lengths": [4, 2]} | changes
    tensors = {name: torch.tensor(part) for name, part in parts.items() if part}
    save_file(tensors, at / "root-root" / "general_text.safetensors")


def keep_cascade(folder: Path, kind: OutputKind) -> None:
    """The cascade of a model with outputs of this kind."""
    level = LevelProfile(0.9, 1.0)
    candidates = (Candidate(0.9, 10.0, 0.5, 0.9, 0.2, 1.2),)
    CascadeProfile(kind, level, level, candidates, 0).save(folder)


def widen_head(folder: Path, outputs: int) -> None:
    """A model of so many labels."""
    weights, name = load_file(folder / "hplm.safetensors"), folder / "hplm.json"
    width = weights["head.weight"].shape[1]
    head = {"head.weight": torch.zeros(outputs, width), "head.bias": torch.zeros(outputs)}
    save_file(weights | head, folder / "hplm.safetensors")
    change_json(name, labels=[f"label {number}" for number in range(outputs)])


def poison(folder: Path) -> None:
    """Not a number, in the middle of a table."""
    vectors = np.fromfile(folder / "vectors.bin", dtype=np.float16)
    vectors[len(vectors) // 2] = np.nan
    vectors.tofile(folder / "vectors.bin")


HARM: dict[str, tuple[Callable[[Path], object], str]] = {
    "larger lower layers": (
        lambda at: change_json(at / "domain-lower/lower.json", max_tokens=10**12),
        "not of this root",
    ),
    "a context without end": (
        lambda at: change_json(at / "domain-lower/lower.json", context_rank=10**9),
        "context_rank of the lower layers is invalid",
    ),
    "weights of another shape": (
        lambda at: change_weights(
            at / "domain-lower/lower.safetensors", lambda value: value[:1], "level_bias"
        ),
        "do not fit",
    ),
    "weights that are no numbers": (
        lambda at: change_weights(at / "hplm-hplm/hplm.safetensors", lambda value: value * torch.nan),
        "NaN",
    ),
    "a mixer of lower layers that is narrower than they are": (
        lambda at: change_weights(
            at / "domain-lower/lower.safetensors",
            lambda value: value[:, 1:].contiguous(),
            "mixer.value.weight",
        ),
        "context mixer",
    ),
    "a mixer of a table that knows too few levels": (
        lambda at: change_weights(
            at / "domain-plot/composition.safetensors", lambda value: value[1:], "mixer.levels.weight"
        ),
        "context mixer",
    ),
    "a mixer of a table that is no number": (
        lambda at: change_weights(
            at / "domain-plot/composition.safetensors", lambda value: value * torch.nan, "mixer.convolution"
        ),
        "NaN",
    ),
    "a table that is no number": (lambda at: poison(at / "domain-plot"), "NaN"),
    "a table of other fragments": (lambda at: change_json(at / "domain-plot/plot.json", n=2), "bytes long"),
    "a table of other levels than those of the root": (
        lambda at: change_json(at / "domain-plot/plot.json", ladder=["trigram"]),
        "the ladder of the table",
    ),
    "an index cut": (
        lambda at: (at / "domain-plot/index.lmdb").write_bytes(b"\0" * 4096),
        "not",
    ),
    "a PET of another size": (
        lambda at: change_json(at / "hplm-hplm/hplm.json", shape={"layers": 9, "hidden": 32, "inner": 64}),
        "",
    ),
    "a head without end": (lambda at: widen_head(at / "hplm-hplm", 3000), "outputs"),
    "a cascade that is none": (lambda at: (at / "hplm-hplm/cascade.json").write_text("{}"), "cascade.json"),
    "a cascade of another task": (lambda at: keep_cascade(at / "hplm-hplm", "tokens"), "is of tokens"),
    "an unknown task": (lambda at: change_json(at / "hplm-hplm/hplm.json", task="evil"), "unknown task"),
    "a head of another size": (
        lambda at: save_file(
            {"dense.weight": torch.zeros(1, 1)}, at / "domain-lower" / "lm_head.safetensors"
        ),
        "do not fit",
    ),
    "text of another vocabulary": (
        lambda at: keep_text(at, ids=[2, 9, 10**6, 3, 2, 3]),
        "general text is not of this root",
    ),
    "text cut": (lambda at: keep_text(at, lengths=[4, 1]), "general text is truncated"),
    "text that is none": (
        lambda at: (at / "root-root" / "general_text.safetensors").write_bytes(b"text"),
        "safetensors",
    ),
    "a root that is not there": (lambda at: (at / "root-root/root.json").unlink(), "missing"),
    "a tokenizer that is none": (lambda at: (at / "root-root/tokenizer.json").write_text("{}"), ""),
}


def test_sound_artifacts_pass(wanted: dict[str, Any], tmp_path: Path) -> None:
    assert run_request(wanted) == SOUND
    keep_cascade(tmp_path / "hplm-hplm", "classes")
    assert run_request(wanted) == SOUND
    assert run_request(wanted | {"hplm": None}) == {}


def test_the_profile_of_an_evaluation_is_of_the_models_task(wanted: dict[str, Any], tmp_path: Path) -> None:
    fitted = tmp_path / "cascade"
    fitted.mkdir()
    keep_cascade(fitted, "classes")
    assert run_request(wanted | {"cascade": str(fitted)}) == SOUND
    keep_cascade(fitted, "tokens")
    assert "is of tokens" in run_request(wanted | {"cascade": str(fitted)})["error"]


@pytest.mark.parametrize("harm", HARM)
def test_artifacts_that_do_not_fit_together_are_refused(
    harm: str, wanted: dict[str, Any], tmp_path: Path
) -> None:
    act, words = HARM[harm]
    act(tmp_path)
    answer = run_request(wanted)
    assert answer.keys() == {"error"}
    assert words in answer["error"]


def test_the_roots_own_table_holds_the_whole_vocabulary(wanted: dict[str, Any]) -> None:
    assert "lacks tokens" in run_request(wanted | {"plots": wanted["plots"][::-1]})["error"]


def test_a_process_of_its_own_answers(wanted: dict[str, Any], tmp_path: Path) -> None:
    assert artifacts_check(ArtifactCheck(**wanted)) == SOUND
    (tmp_path / "hplm-hplm" / "hplm.json").write_text("{}")
    with pytest.raises(HmiError) as caught:
        artifacts_check(ArtifactCheck(**wanted))
    assert caught.value.code == ErrorCode.INVALID_ARCHIVE


def test_the_end_of_the_process_is_a_refusal(wanted: dict[str, Any], settings: Settings) -> None:
    for program, code in (
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", ErrorCode.INVALID_ARCHIVE),
        ("raise SystemExit(3)", ErrorCode.INVALID_ARCHIVE),
        ("print('not JSON')", ErrorCode.INTERNAL),
        ("pass", ErrorCode.INTERNAL),
    ):
        settings.HMI_ARTIFACT_CHECK = (sys.executable, "-c", program)
        with pytest.raises(HmiError) as caught:
            artifacts_check(ArtifactCheck(**wanted))
        assert caught.value.code == code


@pytest.fixture
def told(wanted: dict[str, Any], settings: Settings) -> Callable[[str], Any]:
    """What a Python expression is, in the process that tries artifacts."""

    def ask(expression: str) -> Any:
        program = (
            f"import json, os, sys, resource; sys.stdin.read(); print(json.dumps({{'is': {expression}}}))"
        )
        settings.HMI_ARTIFACT_CHECK = (sys.executable, "-c", program)
        return artifacts_check(ArtifactCheck(**wanted))["is"]

    return ask


def test_the_process_knows_nothing_that_it_does_not_need(
    told: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DATABASE_URL", "REDIS_URL", "HMI_SECRET_KEY", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "ANY"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("LC_CTYPE", "C.UTF-8")
    known = told("dict(os.environ)")
    assert "secret" not in known.values()
    assert (known["PATH"], known["LC_CTYPE"]) == (os.environ["PATH"], "C.UTF-8")


def test_the_process_gives_way_and_has_one_thread(told: Callable[[str], Any], settings: Settings) -> None:
    settings.HMI_ARTIFACT_CHECK_NICENESS = 10
    assert told("[os.nice(0), os.environ['OMP_NUM_THREADS']]") == [min(19, os.nice(0) + 10), "1"]


def test_the_memory_of_the_process_grows_with_the_artifacts_only(
    told: Callable[[str], Any], wanted: dict[str, Any]
) -> None:
    used = 5 * sum(path.stat().st_size for path in Path(wanted["root"]).parent.rglob("*") if path.is_file())
    expected = min(4 * 1024**3 + used, machine_bytes() // 3)
    assert told("resource.getrlimit(resource.RLIMIT_DATA)") == [expected] * 2
    assert told("len(bytearray(2 * 1024**3))") == 2 * 1024**3
    with pytest.raises(HmiError) as caught:
        told("len(bytearray(6 * 1024**3))")
    assert caught.value.code == ErrorCode.INVALID_ARCHIVE


def test_the_memory_of_the_process_has_an_end_however_large_files_are(
    told: Callable[[str], Any], wanted: dict[str, Any]
) -> None:
    with (Path(wanted["plots"][0]) / "vectors.bin").open("ab") as sparse:
        sparse.truncate(2**40)
    assert told("resource.getrlimit(resource.RLIMIT_DATA)[0]") == min(machine_bytes() // 3, 32 * 1024**3)


def machine_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_the_processor_time_of_the_process_grows_with_the_artifacts_to_an_end(
    told: Callable[[str], Any], wanted: dict[str, Any]
) -> None:
    assert told("resource.getrlimit(resource.RLIMIT_CPU)[0]") == 30
    for size, seconds in ((2 * 1024**3, 132), (2**40, 900)):
        with (Path(wanted["plots"][0]) / "vectors.bin").open("ab") as sparse:
            sparse.truncate(size)
        assert told("resource.getrlimit(resource.RLIMIT_CPU)[0]") == seconds


@pytest.mark.django_db
def test_commands_take_a_version_to_another_site(site: Site, another_site: Move, tmp_path: Path) -> None:
    said, held, digest = predictions(site.hplm), artifacts_of(site.hplm), site.hplm.digest
    out, archive = io.StringIO(), tmp_path / "spam.zip"
    call_command("export_version", "spam@default", str(archive), "--tenant=acme", "--branch", stdout=out)
    assert f"({digest[:12]}) is in {archive}" in out.getvalue()
    call_command("export_version", str(site.root.pk), str(tmp_path / "root"), stdout=out)
    assert (tmp_path / "root" / "manifest.json").is_file()
    another_site()
    call_command("import_version", str(tmp_path / "root"), "--name=base", stdout=out)
    call_command("import_version", str(archive), "--tenant=globex", "--name=ham", stdout=out)
    assert out.getvalue().endswith(f"globex/ham:1 ({digest[:12]}) is ready.\n")
    version = Version.unscoped.get(kind="model")
    assert (version.digest, branch_of(version)[-1].name) == (digest, "base")
    assert artifacts_of(version) == held
    assert predictions(version) == said


@pytest.mark.django_db
@pytest.mark.usefixtures("tried_here")
def test_errors_of_commands_name_the_cause(site: Site, tmp_path: Path) -> None:
    out, archive = io.StringIO(), tmp_path / "spam.zip"
    call_command("export_version", str(site.hplm.pk), str(archive), "--tenant=acme", stdout=out)
    before = everything(tmp_path)
    for arguments, words in (
        (("export_version", "spam", str(tmp_path / "x")), "--tenant for a model"),
        (("export_version", str(site.hplm.pk), str(tmp_path / "x")), "no such"),
        (("export_version", "spam", str(archive), "--tenant=acme"), "already exists"),
        (("import_version", str(archive)), "belongs to a tenant"),
        (("import_version", str(tmp_path / "nowhere"), "--tenant=globex"), "cannot be read"),
    ):
        with pytest.raises(CommandError, match=words):
            call_command(*arguments, stdout=out)
    assert everything(tmp_path) == before
    call_command("export_version", "spam:1", str(tmp_path / "folder"), "--tenant=acme", stdout=out)
    assert (tmp_path / "folder" / "README.md").is_file()
