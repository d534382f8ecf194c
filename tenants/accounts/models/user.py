"""Users."""

from django.contrib.auth.models import AbstractUser
from django.db.models import BooleanField, UniqueConstraint
from django.db.models.functions import Lower


class User(AbstractUser):
    """A person. Memberships give rights in tenants; staff administer the platform.

    Users are deactivated rather than deleted, because audit events refer to them.
    """

    notifies_of_jobs = BooleanField(
        "job notifications",
        default=True,
        db_default=True,
        help_text="Mark the user's finished jobs in the navigation, and send e-mails about them.",
    )

    @property
    def display_name(self) -> str:
        """Return the full name, or the user name without one."""
        return self.get_full_name() or self.get_username()

    class Meta(AbstractUser.Meta):
        constraints = (
            UniqueConstraint(
                Lower("username"),
                name="user_names_differ_in_more_than_case",
                violation_error_message="There is already a user with this name (ignoring case).",
            ),
        )
