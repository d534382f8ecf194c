"""People who sign in."""

from django.contrib.auth.models import AbstractUser


class User(AbstractUser):
    """A person. What they may do in a tenant is said by their membership; staff run the platform.

    People are deactivated rather than deleted: audit events keep naming them.
    """
