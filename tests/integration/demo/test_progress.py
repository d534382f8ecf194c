"""What the terminal shows of the demo while it is built."""

from io import StringIO
from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django import Settings
from rich.console import Console

from demo.job_progress import DemoProgress
from demo.options import DemoOptions
from demo.record.models import DemoPart, Goal
from demo.record.selectors import DemoState
from demo.record.services import demo_request
from demo.version import ROOT
from tenants.base.background_jobs import BackgroundKind
from tests.integration.versiontree import tree_factory
from versiontree.jobs.models import Job
from versiontree.jobs.services.control import job_cancel
from versiontree.tree.models import Version
from versiontree.tree.services.roots import root_register

pytestmark = pytest.mark.django_db
FIRST = ("acme", "spam")


@pytest.fixture
def root(artifact_root: Path, redis_url: str, tmp_path: Path, settings: Settings) -> Version:
    """A root of the demo whose jobs wait, and the demo's own job."""
    settings.HMI_HOME = tmp_path
    text = tree_factory.corpus(None, "prose")
    source = tree_factory.checkpoint(tmp_path / "checkpoint")
    version = root_register(name="minilm", source=source, corpus=text, actor=None)
    DemoPart.unscoped.create(name=ROOT, version=1, root=version.root, made_at=timezone.now())
    demo_request(goal=Goal.BUILT, actor=None, options=DemoOptions())
    return version


def console(*, terminal: bool) -> tuple[Console, StringIO]:
    written = StringIO()
    return Console(file=written, force_terminal=terminal, width=100, soft_wrap=not terminal), written


def test_without_a_terminal_each_change_is_one_line(root: Version) -> None:
    shown, written = console(terminal=False)
    with DemoProgress(shown, FIRST) as progress:
        for _ in range(3):
            assert progress.update()
        assert written.getvalue() == ""
        tree_factory.claim(tree_factory.jobs_in_order(root)[0])
        for _ in range(3):
            progress.update()
    assert written.getvalue().splitlines() == ["  minilm:1: convert: started"]


def test_at_a_terminal_there_are_bars_which_are_gone_at_the_end(root: Version) -> None:
    shown, written = console(terminal=True)
    tree_factory.claim(tree_factory.jobs_in_order(root)[0])
    with DemoProgress(shown, FIRST) as progress:
        progress.update()
        progress._progress.refresh()
        assert "minilm:1: convert" in written.getvalue()
    assert written.getvalue().rstrip().endswith("\x1b[2K"), "the last thing is to erase a line"


def test_a_line_says_when_the_first_model_answers_and_says_it_once(root: Version) -> None:
    shown, written = console(terminal=False)
    home = tree_factory.create_tenant("acme")
    tree_factory.do_jobs(root)
    with DemoProgress(shown, FIRST) as progress:
        progress.update()
        assert "answers now" not in written.getvalue()
        tree_factory.ready_hplm(Version.unscoped.get(pk=root.pk), "spam", home)
        progress.update()
        progress.update()
    assert written.getvalue().count("acme/spam answers now.") == 1


def test_the_reason_of_a_failed_job_is_shown_and_the_end_of_the_demo_is_known(root: Version) -> None:
    shown, written = console(terminal=False)
    with DemoProgress(shown, FIRST) as progress:
        progress.update()
        job_cancel(job=tree_factory.jobs_in_order(root)[0], actor=None)
        job_cancel(job=Job.unscoped.get(kind=BackgroundKind.DEMO), actor=None)
        assert not progress.update()
    assert "minilm:1: convert: Canceled." in written.getvalue()
    assert progress.status.state == DemoState.INCOMPLETE
