"""The product's settings, with usage written down once a minute."""

from hmi_site.settings import *  # noqa: F403

HMI_USAGE_INTERVAL_S = 60.0
