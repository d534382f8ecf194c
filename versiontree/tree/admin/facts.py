"""What the pages of roots, domains and models tell beside their own fields."""

import json
from collections.abc import Iterable
from typing import Any, Final

from django.contrib import admin
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import Truncator
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from tenants.base.admin.base import (
    LINK_STYLE,
    NotByHand,
    ReadOnly,
    json_block,
    linked,
    linked_list,
    opening,
    pretty_json,
)
from versiontree.jobs.models import Job, JobState
from versiontree.tree.admin.standing import asking_for
from versiontree.tree.models import Coverage, Domain, Evaluation, FineTuning, Hplm, Root
from versiontree.tree.selectors.dependents import dependents_of
from versiontree.tree.selectors.versions import versions_of

NAMED: Final = 9
"""So many domains and so many models are named, of those that stand on something: with how many there are,
that is all that a question before an action shows."""


def jobs_told(owner: Root | Domain | Hplm) -> SafeString:
    """The jobs of its newest version that have not succeeded, a line each."""
    version = versions_of(owner).first()
    jobs = Job.unscoped.filter(version=version).exclude(state=JobState.SUCCEEDED).order_by("created_at")
    return _lines(_error_text(job) for job in jobs)


def listed(lines: Iterable[str]) -> SafeString:
    """A line each."""
    return _lines(format_html("{}", line) for line in lines)


def standing_on(owner: Root | Domain) -> list[str]:
    """What grows directly from it: the first domains and models, each leading to its page, and where there
    are more a way to the list of all."""
    standing = dependents_of(owner, shown=NAMED)
    domains, hplms, query = standing.domain_count, standing.hplm_count, asking_for(owner)
    return [
        *(linked(domain, f"the domain {_named(domain)}") for domain in standing.domains),
        *([linked_list(Domain, query, f"all {domains:,} domains")] if domains > NAMED else []),
        *(linked(hplm, f"the model {hplm}") for hplm in standing.hplms),
        *(
            [linked_list(Hplm, query, f"all {hplms:,} models, of {standing.tenant_count:,} tenants")]
            if hplms > NAMED
            else []
        ),
    ]


def folded(figures: Any) -> SafeString | None:
    """JSON that opens when asked for, its figures to six digits."""
    if not figures:
        return None
    return opening(json_block(_short(figures)))


def on_a_line(figures: Any) -> str:
    """The beginning of JSON, its figures to six digits."""
    return Truncator(json.dumps(_short(figures), ensure_ascii=False)).chars(120) if figures else ""


def _short(figures: Any) -> Any:
    return json.loads(json.dumps(figures), parse_float=lambda told: float(f"{float(told):.6g}"))


def leading(address: str, text: str) -> SafeString:
    """A link."""
    return format_html('<a class="{}" href="{}">{}</a>', LINK_STYLE, address, text)


def _named(domain: Domain) -> str:
    return f"{domain.tenant.slug}/{domain.name}" if domain.tenant else domain.name


def _error_text(job: Job) -> SafeString:
    how = [job.status_label.lower()]
    if job.state == JobState.RUNNING:
        how += [f"{job.progress:.0%}", *([job.stage] if job.stage else [])]
    if job.error_message:
        how.append(job.error_message)
    return format_html("{}: {}", linked(job, job.get_kind_display()), ", ".join(how))


def _lines(lines: Iterable[SafeString]) -> SafeString:
    return format_html_join(mark_safe("<br>"), "{}", ((line,) for line in lines))


@admin.register(Coverage)
class CoverageAdmin(NotByHand):
    """What was measured; what is deleted is measured again when its page is looked at."""

    list_display = ("version", "corpus", "dataset", "tenant", "trigrams", "bigrams", "unigrams", "fault")
    list_select_related = (
        "tenant",
        "corpus__tenant",
        "dataset__tenant",
        "version__root",
        "version__domain__root",
        "version__hplm__tenant",
    )
    search_fields = ("corpus__name", "dataset__name", "tenant__slug")


@admin.register(Evaluation)
class EvaluationAdmin(ReadOnly):
    """Which answers are kept; the page of the version shows them."""

    list_display = ("version", "dataset", "tenant", "artifact", "made_at")
    list_filter = (("tenant", AutocompleteSelectFilter), "made_at")
    list_filter_submit = True
    list_select_related = (
        "tenant",
        "artifact",
        "version__hplm__tenant",
        "version__root",
        "version__domain__root",
    )
    search_fields = ("dataset", "test", "tenant__slug", "version__hplm__name")


@admin.register(FineTuning)
class FineTuningAdmin(ReadOnly):
    """Those of the OpenAI conventions, or why they came to nothing."""

    list_display = ("name", "model", "tenant", "state", "attempts", "created_at", "finished_at")
    list_filter = ("state", ("tenant", AutocompleteSelectFilter), "created_at")
    list_filter_submit = True
    list_select_related = ("tenant",)
    search_fields = ("name", "model", "tenant__slug")
    exclude = ("asked", "options", "settings", "error")
    readonly_fields = ("sent", "why")
    show_full_result_count = False

    @admin.display(description="As it was sent")
    def sent(self, tuning: Any) -> SafeString:
        """The request's body."""
        return pretty_json(tuning.asked)

    @admin.display(description="Why it failed")
    def why(self, tuning: Any) -> SafeString:
        """The error as the tenant got it."""
        return pretty_json(tuning.error)
