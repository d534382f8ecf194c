"""Who may see the rows of all tenants: each use is known here, with what it is for."""

import ast
from pathlib import Path

CHECKOUT = Path(__file__).parents[4]
PACKAGES = ("hmi_site", "tenants", "versiontree", "inference", "workers", "frontend")
DOORS = {"platform_scope", "enter_platform", "use_platform_scope"}

MAY = {
    "manage.py": "commands of the operator",
    "hmi_site/celery.py": "Celery workers work for all",
    "hmi_site/metrics/platform.py": "counts of all jobs",
    "hmi_site/http/middleware.py": "the administration, for staff",
    "hmi_site/warm_up.py": "some model, looked up before the first request",
    "inference/api/drift.py": "all models' answers of a day, compared with their dev splits",
    "tenants/accounts/api/access.py": "the API of the platform, for staff",
    "tenants/accounts/api/tenants.py": "a user's tenants, before it is known which is asked about",
    "tenants/accounts/authentication.py": "a key, by its plaintext, before it is known whose it is",
    "tenants/accounts/selectors.py": "tenants of a user or of a slug, before it is known who asks",
    "tenants/accounts/services/tenant_deletion.py": "what other tenants have of one that is deleted",
    "tenants/audit/services.py": "what a tenant's request did that is the platform's to note",
    "tenants/datasets/services/stored_files.py": "whether anybody else has the same file",
    "tenants/usage/services/count_rows.py": "counts of all tenants, written in one statement",
    "tenants/usage/services/request_log.py": "requests of all tenants, written in one statement",
    "versiontree/tree/selectors/estimates.py": "the median size of all tenants' models of a root",
    "versiontree/tree/selectors/past_jobs.py": "how long jobs took, whoever's: it tells of the machine",
    "versiontree/jobs/migrations/0003_remove_growth_jobs.py": "jobs of a kind that is gone, of all tenants",
    "versiontree/jobs/selectors.py": "a job's place among all; how long jobs take; streams that follow jobs",
    "versiontree/transfer/services/version_import.py": "roots that staff import",
    "versiontree/tree/serving_manifest.py": "the manifest names all models",
}


def test_only_these_look_at_all_tenants() -> None:
    assert {name for name in sources() if calls(name) & DOORS} == MAY.keys()


def sources() -> list[str]:
    """The product's own, but the module that has the doors."""
    found = [file for package in PACKAGES for file in (CHECKOUT / package).rglob("*.py")]
    names = {str(file.relative_to(CHECKOUT)) for file in [*found, CHECKOUT / "manage.py"]}
    return sorted(names - {"tenants/base/scope.py"})


def calls(name: str) -> set[str]:
    """The names of what a file calls, where they could be doors."""
    text = (CHECKOUT / name).read_text(encoding="utf-8")
    if not any(door in text for door in DOORS):
        return set()
    tree = ast.parse(text)
    called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {func.id for func in called if isinstance(func, ast.Name)}
