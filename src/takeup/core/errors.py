"""The error tree: each error knows whether to try again, its HTTP status and what the reader can do."""

import errno

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
"""What the system says where there is no room: the machine's trouble, not the work's."""


class TakeupError(Exception):
    """The root; `code` is stable, `help` says what to do."""

    retryable = False
    fails_twice = False
    """Whether a task that ends so twice in a row would go on doing it: the second time is the last."""
    http_status = 500
    exit_code = 1
    """With which a command ends."""
    help = "This is a fault in Takeup; please report it with the steps that led here."

    def __init__(self, message: object = "", *, advice: str | None = None) -> None:
        """`advice` is the help for this very case, where that of the class does not fit."""
        super().__init__(message)
        if advice is not None:
            self.help = advice

    @property
    def code(self) -> str:
        """The stable name used in problem documents and `--json` output."""
        name = type(self).__name__
        return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


class InvalidInput(TakeupError):
    """What was handed in cannot be used; nothing was written."""

    http_status = 422
    help = "Correct the value that the message names and send it again."


class InvalidSpec(InvalidInput):
    """A job's spec is not JSON, is too large or is nested too deeply."""

    help = "Send one JSON object within the size and depth that the message names."


class InvalidPipeline(InvalidInput):
    """A pipeline's stages do not form a graph that can run."""

    help = "Correct the stage that the message names; `needs` may only point at stages declared before it."


class UnknownPipeline(InvalidInput):
    """No pipeline has this name."""

    http_status = 404
    help = "Use one of the pipelines that the message lists, or load the file that declares yours."


class UnknownStage(InvalidInput):
    """The pipeline has no stage of this name."""

    http_status = 404
    help = "Use one of the stages that the message lists."


class InvalidResult(InvalidInput):
    """A stage handed back a result that cannot be stored or split into segments."""

    help = "Return JSON; a stage that others split by must return {'segments': [...]}."


class BadArchive(InvalidInput):
    """A packed folder that was sent is not what may be unpacked; nothing of it was kept."""

    help = "Pack plain files with relative names, of the kinds that streams have, into one gzipped tar."


class WrongChecksum(BadArchive):
    """What arrived is not what the sender said he would send."""

    help = "Send it again; if it happens again, say the SHA-256 and the size of what is really sent."

    @property
    def code(self) -> str:
        return "checksum"


class IdempotencyMismatch(InvalidInput):
    """The idempotency key was used before with another body."""

    help = "Use a new key for a new request, or send the very same body again."


class NotFound(TakeupError):
    """No row has this id."""

    http_status = 404
    help = "Check the id; `takeup jobs list` shows the jobs there are. Old jobs are in the archive."


class Conflict(TakeupError):
    """The request contradicts what is stored; nothing was written."""

    http_status = 409
    help = "Read the current state and decide again."


class SubjectBusy(Conflict):
    """The subject already has a live job."""

    help = "Wait for that job, or cancel it first."


class VersionMismatch(Conflict):
    """The row was changed since it was read."""

    help = "Read the row again and repeat the change on the new version."


class IllegalMove(Conflict):
    """The row's state does not allow this move."""

    help = "Look at the row's state; the states page of the docs lists the legal moves."


class LeaseLost(Conflict):
    """The token does not hold the task any more; the caller must stop and write nothing."""

    help = "Stop working on this task: it was cancelled, or its lease ran out and it belongs to another."


class FileChanged(TakeupError):
    """A file is not the one any more that the caller has parts of."""

    http_status = 412
    help = "Leave the file of a job alone until the job is done, or submit the job again."


class AlreadyStarted(Conflict):
    """A process of a worker that registered before does so again: the call was repeated or came late."""

    help = "A newer process works under this name; start another one under its own name, or stop that one."

    def __init__(self, message: object = "", *, is_latest: bool = True) -> None:
        """`is_latest` says that no other process of the worker registered since."""
        super().__init__(message)
        self.is_latest = is_latest


class WorkerRefused(TakeupError):
    """The worker may not claim."""

    http_status = 403
    help = "Ask an operator to enable this worker; a drained worker must register again."


class KeyRefused(WorkerRefused):
    """The server does not know the worker's key any more."""

    http_status = 401
    help = (
        "Make another key beside the server, `takeup keys create NAME --worker ID` or "
        "`takeup workers register NAME`, and give it as TAKEUP_WORKER_API_KEY."
    )


class StoreError(TakeupError):
    """The database could not do what was asked."""

    http_status = 503
    help = "Check that the database is up and reachable; `takeup doctor` shows what it sees."


class StoreUnavailable(StoreError):
    """The database cannot be reached or is too busy; whether the last write happened is unknown."""

    retryable = True


class OutcomeUnknown(StoreUnavailable):
    """The connection broke during a commit, so the write may or may not have happened."""

    help = "Repeat the same call with the same request id: every write is safe to repeat."


class StoreConfig(StoreError):
    """The database URL or the database behind it cannot be used as configured."""

    http_status = 500
    help = "Correct TAKEUP_DATABASE_URL: sqlite:///FILE, postgresql://HOST/NAME or duckdb:///FILE."


class StoreInUse(StoreConfig):
    """Another process holds the database file."""

    help = "DuckDB allows one process: stop the other one, or use SQLite or PostgreSQL for several."


class NetworkFileSystem(StoreConfig):
    """An embedded database file lies on a network file system, where its locks cannot be trusted."""

    help = "Put the file on a local disk, or use PostgreSQL."


class SchemaTooNew(StoreConfig):
    """The database was upgraded by a newer Takeup."""

    help = "Upgrade this Takeup to the version that upgraded the database; schemas never go back."


class SchemaMissing(StoreConfig):
    """The database has an older schema than this code, or none."""

    help = "Run `takeup db upgrade`."


class NoSchema(SchemaMissing):
    """The database is not Takeup's, or is still empty."""

    help = "Run `takeup db upgrade`. If it should be Takeup's already, check --database and --data."
