"""Settings of allauth, axes, corsheaders, drf-spectacular and unfold. settings.py imports them."""

from datetime import timedelta

from corsheaders.defaults import default_headers

from hmi_site import env
from hmi_site.server_urls import mail_server

AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "allauth.account.auth_backends.AuthenticationBackend",
]
LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login/"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
PASSWORD_RESET_TIMEOUT = 24 * 3600
HMI_SIGN_UP = env.flag("HMI_SIGN_UP", False)
HMI_STAFF_TOTP = env.flag("HMI_STAFF_TOTP", False)
HMI_LOCKOUT_FAILURES = 5
HMI_LOCKOUT_MINUTES = 15

# --- calls from pages of other origins ------------------------------------------------------------------
# They authenticate with a key; cookies are not accepted from there.
_ORIGINS = env.comma_separated("HMI_CORS_ORIGINS", [])
_UPLOAD_HEADERS = ("tus-resumable", "upload-length", "upload-metadata", "upload-offset")
CORS_ALLOW_ALL_ORIGINS = _ORIGINS == ["*"]
CORS_ALLOWED_ORIGINS = [] if CORS_ALLOW_ALL_ORIGINS else _ORIGINS
CORS_URLS_REGEX = r"^/(api/v1|v1|v2)(/|$)"
CORS_ALLOW_HEADERS = (*default_headers, "idempotency-key", "x-request-id", "x-timeout-s", *_UPLOAD_HEADERS)
CORS_EXPOSE_HEADERS = ("location", "retry-after", "x-request-id", *_UPLOAD_HEADERS)

# --- e-mail ----------------------------------------------------------------------------------------------
_MAIL = mail_server(env.text("HMI_EMAIL_URL"))
EMAIL_BACKEND = _MAIL.backend
EMAIL_HOST, EMAIL_PORT = _MAIL.host, _MAIL.port
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = _MAIL.user, _MAIL.password
EMAIL_USE_TLS, EMAIL_USE_SSL = _MAIL.starttls, _MAIL.tls
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = env.text("HMI_EMAIL_FROM", "hmi@localhost")

# --- django-allauth --------------------------------------------------------------------------------------
ACCOUNT_ADAPTER = "hmi_site.accounts.AccountAdapter"
ACCOUNT_FORMS = {
    "login": "frontend.forms.session.SignInForm",
    "signup": "frontend.forms.session.SignUpForm",
    "add_email": "frontend.forms.session.AddEmailForm",
    "change_password": "frontend.forms.session.PasswordChangeForm",
    "set_password": "frontend.forms.session.PasswordSetForm",
    "reset_password": "frontend.forms.session.PasswordResetForm",
    "reset_password_from_key": "frontend.forms.session.PasswordResetKeyForm",
    "reauthenticate": "frontend.forms.session.ReauthenticateForm",
}
ACCOUNT_LOGIN_METHODS = {"username", "email"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "email*", "password1*", "password2*"]
ACCOUNT_EMAIL_VERIFICATION = "optional"
ACCOUNT_EMAIL_NOTIFICATIONS = True
ACCOUNT_EMAIL_UNKNOWN_ACCOUNTS = False
# Sign-up does not reveal whether an address has an account.
ACCOUNT_PREVENT_ENUMERATION = "strict"
ACCOUNT_EMAIL_SUBJECT_PREFIX = ""
ACCOUNT_DEFAULT_HTTP_PROTOCOL = "https" if env.flag("HMI_HTTPS", False) else "http"
ACCOUNT_SESSION_REMEMBER = True
MFA_ADAPTER = "hmi_site.accounts.MfaAdapter"
MFA_FORMS = {
    "authenticate": "frontend.forms.session.CodeForm",
    "reauthenticate": "frontend.forms.session.CodeReauthenticateForm",
    "activate_totp": "frontend.forms.session.TotpActivateForm",
}
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes"]
MFA_TOTP_ISSUER = "HMI"
MFA_TOTP_TOLERANCE = 1  # steps of 30 seconds that a clock may be off
MFA_ALLOW_UNVERIFIED_EMAIL = True  # users may have no e-mail address

# --- django-axes -----------------------------------------------------------------------------------------
AXES_HANDLER = "hmi_site.accounts.LockoutHandler"
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_USERNAME_CALLABLE = "hmi_site.accounts.lockout_username"
AXES_LOCKOUT_CALLABLE = "hmi_site.accounts.lockout_response"
AXES_CLIENT_IP_CALLABLE = "tenants.base.client_address.rate_limit_address"
AXES_FAILURE_LIMIT = HMI_LOCKOUT_FAILURES
AXES_COOLOFF_TIME = timedelta(minutes=HMI_LOCKOUT_MINUTES)
AXES_RESET_ON_SUCCESS = True
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_DISABLE_ACCESS_LOG = True
AXES_ENABLE_ADMIN = False  # hmi_site/admin.py registers the model
AXES_SENSITIVE_PARAMETERS = ["csrfmiddlewaretoken", "login", "oldpassword", "password1", "password2"]
AXES_VERBOSE = False

# --- drf-spectacular -------------------------------------------------------------------------------------
SPECTACULAR_SETTINGS = {
    "TITLE": "HMI",
    "DESCRIPTION": "Train, deploy and call your own language models. [Back to HMI](/)",
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
        "hmi_site.openapi.schema.add_common_responses",
        "hmi_site.openapi.schema.one_of_to_any_of",
        "hmi_site.openapi.schema.forms_for_files_only",
        "hmi_site.openapi.examples.add_examples",
    ],
    "ENUM_NAME_OVERRIDES": {
        "Anchor": ["created_at"],
        "AnswerLevel": ["table", "full"],
        "BatchState": "inference.batches.models.BatchState",
        "CheckKind": "tenants.datasets.models.upload.CheckKind",
        "CheckState": "tenants.datasets.models.upload.CheckState",
        "DatasetTask": "tenants.datasets.models.dataset.DATASET_TASK_CHOICES",
        "DeliveryState": "tenants.webhooks.models.DeliveryState",
        "EventKind": "tenants.webhooks.models.EventKind",
        "InvitationState": "tenants.accounts.models.invitation.InvitationState",
        "JobKind": "versiontree.jobs.models.JobKind",
        "JobState": "versiontree.jobs.models.JobState",
        "MessageRole": ["system", "user", "assistant", "developer"],
        "RoleEnum": "tenants.accounts.models.tenant.Role",
        "RootKind": "versiontree.tree.root_kind.RootKind",
        "TableLevel": ["trigram", "bigram", "unigram", "computed"],
        "Task": "tenants.datasets.models.dataset.Task",
        "VersionKind": "versiontree.tree.models.version.VersionKind",
        "VersionState": "versiontree.tree.models.version.VersionState",
    },
}

# --- django-unfold ---------------------------------------------------------------------------------------
UNFOLD = {
    "SITE_TITLE": "HMI",
    "SITE_HEADER": "HMI",
    "SITE_SUBHEADER": "Administration",
    "SITE_ICON": "/static/frontend/icon.svg",
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": "/static/frontend/icon.svg"}],
    "SITE_URL": "/",
    "SHOW_HISTORY": False,  # the audit log has it
    "SHOW_VIEW_ON_SITE": False,
    "STYLES": [
        "/static/frontend/variables.css",
        "/static/hmi_site/palette.css",
        "/static/hmi_site/admin.css",
    ],
    "SCRIPTS": [
        "/static/hmi_site/policy.js",
        "/static/hmi_site/pages.js",
        "/static/frontend/copy.js",
    ],
    "COLORS": lambda _: {},  # in palette.css: the content security policy forbids inline styles
    "DASHBOARD_CALLBACK": "hmi_site.dashboard.views.dashboard_context",
    "SIDEBAR": {
        "show_search": True,
        "navigation": "hmi_site.dashboard.navigation.navigation",
    },
    "TABS": "hmi_site.dashboard.navigation.tabs",
}
