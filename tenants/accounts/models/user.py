"""Users."""

from django.contrib.auth.models import AbstractUser
from django.db.models import UniqueConstraint
from django.db.models.functions import Lower


class User(AbstractUser):
    """A person. Memberships give rights in tenants; staff administer the platform.

    Users are deactivated rather than deleted, because audit events refer to them.
    """

    class Meta(AbstractUser.Meta):
        constraints = (
            UniqueConstraint(
                Lower("username"),
                name="user_names_differ_in_more_than_case",
                violation_error_message="There is already a user of this name, perhaps in other letters.",
            ),
        )
