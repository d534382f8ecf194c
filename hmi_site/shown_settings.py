"""Settings of what libraries draw: the description of the API, and the administration."""

SPECTACULAR_SETTINGS = {
    "TITLE": "HMI",
    "DESCRIPTION": "Serve thousands of tenants' own language models from one machine.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "hmi_site.reference.shared_answers.shared_answers",
        "hmi_site.reference.shared_answers.either_way",
    ],
    "ENUM_NAME_OVERRIDES": {
        "Anchor": ["created_at"],
        "BatchState": "inference.batches.models.BatchState",
        "CheckKind": "tenants.datasets.models.upload_check.CheckKind",
        "CheckState": "tenants.datasets.models.upload_check.CheckState",
        "DeliveryState": "tenants.webhooks.models.DeliveryState",
        "EventKind": "tenants.webhooks.models.EventKind",
        "InvitationState": "tenants.accounts.models.invitation.InvitationState",
        "JobKind": "versiontree.jobs.models.job.JobKind",
        "JobState": "versiontree.jobs.models.job.JobState",
        "Task": "tenants.datasets.models.dataset.Task",
        "VersionKind": "versiontree.tree.models.version.VersionKind",
        "VersionState": "versiontree.tree.models.version.VersionState",
    },
}

UNFOLD = {
    "SITE_TITLE": "HMI",
    "SITE_HEADER": "HMI",
    "SITE_URL": "/",
    "SHOW_HISTORY": True,
    "SHOW_VIEW_ON_SITE": False,
    "STYLES": ["/static/hmi_site/palette.css", "/static/hmi_site/admin.css"],
    "SCRIPTS": ["/static/hmi_site/policy.js", "/static/hmi_site/pages.js"],
    "COLORS": lambda _: {},  # They stand in palette.css: in a page the content policy allows no styles.
    "DASHBOARD_CALLBACK": "hmi_site.dashboard.board.board",
    "SIDEBAR": {
        "show_search": True,
        "show_all_applications": True,
        "navigation": "hmi_site.dashboard.navigation.navigation",
    },
}
