"""Admin pages of roots and domains."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from tenants.base.admin.base import ModelForm, once_per_row, staff_user, text_lines
from tenants.base.admin.confirm import require_typed_name
from tenants.base.plurals import counted
from versiontree.jobs.models import JobKind
from versiontree.tree.admin.base import text_link
from versiontree.tree.admin.dependents import DependentsFilter, dependent_links
from versiontree.tree.admin.forms import CHECK, DomainForm, DomainUpdateForm, RootForm, RootSettingsForm
from versiontree.tree.admin.root_check import check_facts
from versiontree.tree.admin.versioned import VersionedAdmin, VersionInline
from versiontree.tree.models import Domain, Root, RootKind
from versiontree.tree.models.version import VersionKind
from versiontree.tree.selectors.lineage import dependents_below
from versiontree.tree.selectors.versions import as_mapping, versions_of
from versiontree.tree.services.compaction import domain_compact
from versiontree.tree.services.domains import domain_publish, domain_retire
from versiontree.tree.services.rebases import owner_rebase_request
from versiontree.tree.services.root_retirement import root_retire
from versiontree.tree.services.roots import root_convert

DECODER_FACTS: Final[Mapping[str, str]] = {
    "family": "Architecture",
    "layers": "Layers",
    "lower_layers": "Layers below the cut",
    "hidden": "Hidden size",
    "parameters": "Parameters",
    "max_tokens": "Context in tokens",
    "vocab": "Vocabulary",
}


RETIRE_WARNING: Final = "Nothing new can be built on it. This cannot be undone. These keep working:"


def root_dependent_lines(root: Root) -> list[str]:
    """How many domains, models and tenants depend on a root, and links to the direct ones."""
    return [f"{dependents_below(root.pk).in_words}.", *dependent_links(root)]


class RootVersionInline(VersionInline):
    """The versions of a root, without those of its domains and models."""

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        versions: QuerySet[Any] = super().get_queryset(request).filter(kind=VersionKind.ROOT)
        return versions


@admin.register(Root)
class RootAdmin(VersionedAdmin):
    """Adding a root registers it: jobs convert an encoder and build its PLOT, or copy a decoder. Its
    checkpoint can be checked before. Only its license, and whether tenants can call it, can change."""

    kind = VersionKind.ROOT
    form = RootForm
    adds = SafeString('Register<span class="hmi-converts"> and convert</span>')
    next_form = RootSettingsForm
    change_form_before_template = "admin/tree/root_check.html"
    shown = (
        "name",
        "kind",
        "source",
        "decoder",
        "progress",
        "served_by",
        "dependents",
        "retired_at",
        "created_by",
        "created_at",
    )
    inlines = (RootVersionInline,)
    list_display = ("name", "kind", "newest", "status", "retired_at", "source", "created_by", "created_at")
    list_filter = ("kind",)
    list_select_related = ("created_by",)
    search_fields = ("name", "source")
    actions = ("convert", "rebase", "retire")
    page_actions = actions
    destructive_actions = ("retire",)

    def available_actions(self, row: Root) -> tuple[str, ...]:
        encoder = ("convert", "rebase") if row.kind == RootKind.ENCODER else ()
        return (*encoder, "retire") if row.retired_at is None else encoder

    @admin.action(description="Convert again", permissions=["operate"])
    def convert(self, request: HttpRequest, rows: QuerySet[Root]) -> None:
        """Create a version of each root from its checkpoint, as this release converts it."""
        self.each(request, rows, lambda row: root_convert(root=row, actor=staff_user(request)), "converting")

    @admin.action(description="Rebase models", permissions=["operate"])
    def rebase(self, request: HttpRequest, rows: QuerySet[Root]) -> None:
        """Rebase the models of all tenants onto the newest version of each root."""
        request_rebases(self, request, rows)

    @admin.action(description="Retire", permissions=["operate"])
    @require_typed_name("retire", warning=RETIRE_WARNING, dependents=root_dependent_lines)
    def retire(self, request: HttpRequest, rows: QuerySet[Root]) -> None:
        """Retire roots, so that no domains or models start on them."""
        self.each(request, rows, lambda row: root_retire(root=row, actor=staff_user(request)), "retired")

    @admin.display(description="Dependents")
    @once_per_row
    def dependents(self, row: Root) -> SafeString:
        """How many domains, models and tenants depend on it, and links to the direct ones."""
        return text_lines(root_dependent_lines(row))

    @admin.display(description="Decoder")
    def decoder(self, root: Root) -> SafeString:
        """What the job reported of a decoder's checkpoint, a line each."""
        return text_lines(list(decoder_facts(root)) or ["Known after the copy job"])

    def get_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        fields = super().get_fields(request, obj)
        if obj is None or obj.kind == RootKind.DECODER:
            return fields
        return tuple(name for name in fields if name != "decoder")

    @admin.display(description="Served by")
    def served_by(self, root: Root) -> SafeString:
        """A link to the inference workers."""
        return text_link(reverse("admin:serving-workers"), "Workers")

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *more: Any, **named: Any
    ) -> HttpResponse:
        check = getattr(context["adminform"].form, "check", None)
        if context.get("original") is None:
            context |= {"check_button": CHECK, "check": check, "check_facts": check and check_facts(check)}
        return super().render_change_form(request, context, *more, **named)

    def save_model(self, request: HttpRequest, obj: Any, form: ModelForm, change: bool) -> None:
        if isinstance(form, RootSettingsForm):
            form.act(staff_user(request))
        else:
            super().save_model(request, obj, form, change)


def request_rebases(page: VersionedAdmin, request: HttpRequest, rows: QuerySet[Any]) -> None:
    """Have a worker rebase the models on these roots or domains, and show how many can be."""
    models = sum(owner_rebase_request(owner=row, actor=staff_user(request)) for row in rows)
    text = f"A worker rebases {counted(models, 'model')}, within the quotas of their tenants."
    page.message_user(request, text)


def decoder_facts(root: Root) -> Iterator[str]:
    """The architecture, the sizes and the chat template of a decoder root; nothing before it is ready."""
    newest = versions_of(root).first()
    report = as_mapping(newest.metrics.get(JobKind.CONVERT)) if newest is not None else {}
    for name, label in DECODER_FACTS.items():
        if name in report:
            value = report[name]
            yield f"{label}: {f'{value:,}' if isinstance(value, int) else value}"
    if "chat_template" in report:
        yield f"Chat template: {'yes' if report['chat_template'] else 'none'}"


@admin.register(Domain)
class DomainAdmin(VersionedAdmin):
    """Adding creates a domain of the platform; saving one trains its next version on more text."""

    kind = VersionKind.DOMAIN
    form = DomainForm
    adds, saves = "Create and train", "Train the next version"
    next_form = DomainUpdateForm
    shown = (
        "name",
        "root",
        "tenant",
        "description",
        "progress",
        "dependents",
        "published_at",
        "created_by",
        "created_at",
    )
    list_display = ("name", "root", "tenant", "newest", "status", "published_at", "created_by", "created_at")
    list_filter = (DependentsFilter, ("root", AutocompleteSelectFilter), ("tenant", AutocompleteSelectFilter))
    list_select_related = ("root", "tenant", "created_by")
    search_fields = ("name", "root__name", "tenant__slug")
    actions = ("compact", "rebase", "publish", "retire")
    page_actions = actions
    destructive_actions = ("retire",)

    def available_actions(self, row: Domain) -> tuple[str, ...]:
        return self.page_actions if row.published_at is None else ("compact", "rebase", "retire")

    @admin.action(description="Compact tables", permissions=["operate"])
    def compact(self, request: HttpRequest, rows: QuerySet[Domain]) -> None:
        """Create a version of each domain with a single merged table."""
        self.each(
            request, rows, lambda row: domain_compact(domain=row, actor=staff_user(request)), "compacting"
        )

    @admin.action(description="Rebase models", permissions=["operate"])
    def rebase(self, request: HttpRequest, rows: QuerySet[Domain]) -> None:
        """Rebase the models of all tenants onto the newest version of each domain."""
        request_rebases(self, request, rows)

    @admin.action(description="Publish", permissions=["operate"])
    def publish(self, request: HttpRequest, rows: QuerySet[Domain]) -> None:
        """Publish domains, so that tenants can build upon them."""
        self.each(
            request, rows, lambda row: domain_publish(domain=row, actor=staff_user(request)), "published"
        )

    @admin.action(description="Retire", permissions=["operate"])
    @require_typed_name(
        "retire",
        warning=RETIRE_WARNING,
        dependents=dependent_links,
    )
    def retire(self, request: HttpRequest, rows: QuerySet[Domain]) -> None:
        """Retire all their versions."""
        self.each(request, rows, lambda row: domain_retire(domain=row, actor=staff_user(request)), "retired")
