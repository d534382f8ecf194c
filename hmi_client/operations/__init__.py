"""What can be asked of the server, each as a flow (`hmi_client.steps`)."""

from hmi_client.operations import domains, files, infer, jobs, models, tenants, training

__all__ = ["domains", "files", "infer", "jobs", "models", "tenants", "training"]
