"""The pages of the navigation, in groups."""

from dataclasses import dataclass
from typing import Final

from frontend.access import TenantAccess
from tenants.accounts.models import Role


@dataclass(frozen=True, slots=True)
class NavigationPage:
    """A page by its URL name. `icon` is one of Lucide; `also` are paths below the tenant that belong to it;
    `role` is the least that it needs."""

    name: str
    label: str
    icon: str
    also: str = ""
    role: Role = Role.VIEWER


@dataclass(frozen=True, slots=True)
class NavigationGroup:
    """Pages for one purpose. The first group has no label."""

    label: str
    pages: tuple[NavigationPage, ...]


GROUPS: Final = (
    NavigationGroup("", (NavigationPage("home", "Home", "house"),)),
    NavigationGroup(
        "Build",
        (
            NavigationPage("models", "Models", "box"),
            NavigationPage("tree", "Version tree", "git-branch", "domains roots"),
            NavigationPage("data", "Data", "database"),
            NavigationPage("jobs", "Jobs", "activity"),
        ),
    ),
    NavigationGroup(
        "Use",
        (
            NavigationPage("playground", "Playground", "message-square"),
            NavigationPage("batches", "Batches", "layers"),
            NavigationPage("keys", "API keys", "key-round", "api calls"),
        ),
    ),
    NavigationGroup(
        "Manage",
        (
            NavigationPage("members", "Members", "users"),
            NavigationPage("usage", "Usage", "chart-column"),
            NavigationPage("requests", "Requests", "list"),
            NavigationPage("webhooks", "Webhooks", "webhook", role=Role.DEVELOPER),
            NavigationPage("audit", "Audit log", "scroll-text", role=Role.OWNER),
            NavigationPage("settings", "Settings", "settings"),
        ),
    ),
)


def navigation_of(access: TenantAccess) -> list[NavigationGroup]:
    """Return the groups with the pages that a member may open."""
    own = Role(access.membership.role)
    return [
        NavigationGroup(group.label, tuple(page for page in group.pages if own.includes(page.role)))
        for group in GROUPS
    ]
