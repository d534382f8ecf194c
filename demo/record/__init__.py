"""The Django app that records what the demo has made in this installation, and runs its background job."""
