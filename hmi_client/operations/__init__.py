"""What can be asked of the server, each as a flow (`hmi_client.flow`)."""

from hmi_client.operations import batches, domains, files, infer, jobs, models, tenants, training

__all__ = ["batches", "domains", "files", "infer", "jobs", "models", "tenants", "training"]
