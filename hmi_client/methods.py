"""The methods of both clients, by name."""

from hmi_client import operations
from hmi_client.operation import Listing, Operation
from hmi_client.responses import AliasMove, Batch, Corpus, Dataset, Domain, Job, JobEvent, Model, Version


class Operations:
    """What can be asked of the server."""

    whoami = Operation(operations.tenants.whoami)
    usage = Operation(operations.tenants.usage)

    infer = Operation(operations.infer.infer)

    models = Listing(Model, operations.models.models)
    model = Operation(operations.models.model)
    model_delete = Operation(operations.models.model_delete)
    versions = Listing(Version, operations.models.versions)
    version = Operation(operations.models.version)
    promote = Operation(operations.models.promote)
    rollback = Operation(operations.models.rollback)
    alias_moves = Listing(AliasMove, operations.models.alias_moves)

    tree = Operation(operations.domains.tree)
    domains = Listing(Domain, operations.domains.domains)
    domain_create = Operation(operations.domains.domain_create)

    model_create = Operation(operations.training.model_create)
    model_update = Operation(operations.training.model_update)
    watch = Listing(Job, operations.training.watch)
    wait = Operation(operations.training.wait)

    jobs = Listing(Job, operations.jobs.jobs)
    job = Operation(operations.jobs.job)
    job_tail = Listing(JobEvent, operations.jobs.job_tail)
    job_cancel = Operation(operations.jobs.job_cancel)
    job_retry = Operation(operations.jobs.job_retry)

    batches = Listing(Batch, operations.batches.batches)
    batch = Operation(operations.batches.batch)
    batch_create = Operation(operations.batches.batch_create)
    batch_watch = Listing(Batch, operations.batches.batch_watch)
    batch_cancel = Operation(operations.batches.batch_cancel)
    batch_delete = Operation(operations.batches.batch_delete)
    batch_results = Operation(operations.batches.batch_results)
    batch_errors = Operation(operations.batches.batch_errors)

    datasets = Listing(Dataset, operations.files.datasets)
    corpora = Listing(Corpus, operations.files.corpora)
    upload = Operation(operations.files.upload)
    dataset_push = Operation(operations.files.dataset_push)
    corpus_push = Operation(operations.files.corpus_push)
