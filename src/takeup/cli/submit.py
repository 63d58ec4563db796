"""`takeup submit`: creates a job for workers to run."""

import argparse
import importlib.util
from datetime import datetime

from takeup.cli.options import add_common, add_json, later, read_spec
from takeup.core.errors import InvalidInput, UnknownPipeline
from takeup.core.pipeline import Pipeline
from takeup.core.policy import PRIORITY_DEFAULT


def add(parser: argparse.ArgumentParser, _name: str) -> None:
    """The arguments of this command."""
    parser.add_argument(
        "pipeline", metavar="PIPELINE", help="FILE.py[:NAME], package.module[:NAME] or an installed name"
    )
    parser.add_argument("--spec", metavar="FILE|-", help="the job's parameters: one JSON object")
    parser.add_argument(
        "--priority",
        type=int,
        metavar="0-10",
        default=PRIORITY_DEFAULT,
        help="10 is most urgent (default: 5)",
    )
    parser.add_argument(
        "--key", metavar="KEY", help="sent again with the same key, the job is made only once"
    )
    parser.add_argument("--user", metavar="USER", default="", help="for whom it runs")
    parser.add_argument("--not-before", metavar="TIME", help="the earliest start, such as 2030-01-31T18:00Z")
    parser.add_argument("--paused", action="store_true", help="let it wait until it is resumed")
    add_json(parser)
    add_common(parser)
    parser.set_defaults(run=later("submit", "submit"))


async def submit(options: argparse.Namespace) -> int:
    """Create the job and print its id."""
    from takeup.app import open_app  # noqa: PLC0415 - help needs none of it
    from takeup.cli.options import settings_of  # noqa: PLC0415
    from takeup.cli.printing import line, print_json  # noqa: PLC0415
    from takeup.core.plan import NewJob, plan_job  # noqa: PLC0415

    settings = settings_of(options)
    new = NewJob(
        pipeline_named(options.pipeline),
        read_spec(options.spec),
        user_id=options.user,
        idempotency_key=options.key,
        priority=options.priority,
        control="PAUSED" if options.paused else "READY",
        not_before=moment_of(options.not_before),
        exact=True,
    )
    plan_job(new)  # what is wrong with it is said before a database is made for it
    async with open_app(settings) as app:
        (job_id,) = await app.submit([new])
    if options.json:
        print_json({"job": job_id})
    else:
        line(job_id)
    return 0


def pipeline_named(text: str) -> Pipeline:
    """The pipeline of a file, of a module, or an installed one."""
    from takeup.pipelines.loading import installed_pipeline, load_one  # noqa: PLC0415 - see above

    if is_source(text):
        return load_one(text)
    try:
        return installed_pipeline(text)
    except UnknownPipeline:
        if not text.isidentifier() or importlib.util.find_spec(text) is None:
            raise
    return load_one(text)


def is_source(text: str) -> bool:
    """Whether this is a file or a module, and not just a name."""
    return any(sign in text for sign in ".:/")


def moment_of(text: str | None) -> datetime | None:
    """A moment with its zone."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"{text!r} is not a time; write it like 2030-01-31T18:00Z") from None
    if moment.tzinfo is None:
        raise InvalidInput(f"{text!r} has no zone; write Z for UTC, or +02:00, at its end")
    return moment
