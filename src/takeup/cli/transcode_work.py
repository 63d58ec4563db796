"""What `takeup transcode` does."""

import argparse
import tempfile
from pathlib import Path
from typing import Any

from takeup.app import App, make_folder, open_app
from takeup.artifacts.versions import Versions
from takeup.cli.options import settings_of
from takeup.cli.printing import print_json, table
from takeup.cli.progress import say
from takeup.cli.run import find_or_submit, found_before, only_one, run_here, warn_of_space, worker_of
from takeup.cli.rungs import Rungs
from takeup.cli.transcode_result import result_of, show_result
from takeup.config import Settings
from takeup.core.errors import InvalidInput, NotFound
from takeup.core.ids import digest
from takeup.core.model import Job
from takeup.media import profile
from takeup.media.bounds import check_work
from takeup.media.choice import choose
from takeup.media.plan import Plan, plan
from takeup.media.source import Source, look_at
from takeup.media.survey import survey
from takeup.media.tools import tools_of
from takeup.pipelines import transcode as pipelines
from takeup.telemetry import logs

MODULE = "takeup.pipelines.transcode"


class NotOurFolder(InvalidInput):
    """The output folder holds something that is no stream, or cannot be written."""

    help = "Choose another folder with -o DIR."


async def transcode(options: argparse.Namespace) -> int:
    """Plan, encode, package, check and publish the source."""
    settings = settings_of(options, log_level="warning")
    logs.configure(style=settings.log_format, level=settings.log_level)  # type: ignore[arg-type]
    source = look_at(options.source)
    wanted = profile.load(options.profile)
    if options.dry_run:
        show_plan(await plan_of(settings, source, wanted, options.segment), as_json=options.json)
        return 0
    out: Path = (options.output or Path(f"{options.source.stem}-stream")).absolute()
    check_folder(out)
    make_folder(settings.data_dir)
    warn_of_space(settings)
    with only_one(settings.data_dir):
        async with open_app(settings) as app:
            job = await run_job(app, settings, out, spec_of(source, out, options), options)
            result = await result_of(app.store.read, job, out)
    show_result(result, as_json=options.json)
    return 0 if job.status == "completed" else 1


async def run_job(
    app: App, settings: Settings, out: Path, spec: dict[str, Any], options: argparse.Namespace
) -> Job:
    """The job of this source and folder, run to its end; what is served already is not made again."""
    pipeline = pipelines.transcode_early if options.early else pipelines.transcode
    served = await served_job(app, out)
    if served and dict(served.spec) == spec and not options.again:
        say("this is what is served already; --again makes it anew")
        return served
    job, is_new = await find_or_submit(
        app,
        pipeline,
        spec,
        subject=f"stream:{digest(str(out))[:32]}",
        unless=lambda job: job.status == "completed",
    )
    if not is_new:
        say(found_before(job))
    worker = worker_of(app, settings, f"{MODULE}:{pipeline.name}", options)
    return await run_here(app, worker, job, parts=Rungs(app.store.read, job.id).parts)


async def served_job(app: App, out: Path) -> Job | None:
    """The job that made the version that is served, if this database knows it."""
    versions = Versions(out)
    current = versions.current()
    origin = None if current is None else versions.origin(current)
    try:
        return await app.store.read.job(origin) if origin else None
    except NotFound:
        return None


def spec_of(source: Source, out: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The job of this source as it is now: a changed file is another job, the same one is found again."""
    wanted = options.profile
    known: dict[str, Any] = {
        "source": str(source.path),
        **source.version,
        "profile": wanted if wanted in profile.names() else str(Path(wanted).resolve()),
        "publish_to": str(out),
    }
    known |= {"rungs": options.rungs.split(",")} if options.rungs else {}
    known |= {"segment_s": options.segment} if options.segment else {}
    known |= {"check": options.check} if options.check != "quick" else {}
    return known | ({"early": True} if options.early else {})


async def plan_of(
    settings: Settings, source: Source, wanted: profile.Profile, segment_s: float | None
) -> Plan:
    """The plan of a source, which is only looked at."""
    tools = tools_of(settings)
    with tempfile.TemporaryDirectory() as folder:
        found = await survey(tools, source, Path(folder) / "copy.mkv")
    whole = plan(found.probe, found.index, await choose(tools.binaries, wanted), segment_s=segment_s)
    check_work(whole, settings.transcode_max_gigapixels)
    return whole


def show_plan(whole: Plan, *, as_json: bool) -> None:
    """The plan as people read it, or as it is stored."""
    if as_json:
        print_json(whole.to_json())
        return
    picture = whole.picture
    if picture is not None:
        table(
            ("rung", "size", "encoder", "quality", "at most"),
            [
                (r.name, f"{r.width}×{r.height}", r.encoder, f"crf {r.crf}", f"{r.max_kbps} kbit/s")
                for r in picture.rungs
            ],
        )
        rate = f"{float(picture.rate):.3f}".rstrip("0").rstrip(".")
        say(f"{picture.frames} frames, {rate} a second, in {len(picture.segments)} segments")
    table(
        ("sound", "channels", "language", "rate"),
        [(n, s.channels, s.language, f"{s.kbps} kbit/s") for n, s in enumerate(whole.sounds, 1)],
    )
    show_texts(whole)


def show_texts(whole: Plan) -> None:
    """What is made of subtitles and chapters, and what is left out."""
    if whole.texts:
        table(
            ("text", "language", "title", "forced"),
            [(n, t.language, t.title, "yes" if t.is_forced else "") for n, t in enumerate(whole.texts, 1)],
        )
    if whole.chapters:
        say(f"{len(whole.chapters)} chapters")
    for note in whole.notes:
        say(note)


def check_folder(out: Path) -> None:
    """Refuse to add to what is no stream, and a place that cannot be written, before any work is done."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out if out.is_dir() else out.parent):
            pass
    except OSError as error:
        raise NotOurFolder(f"{out} cannot be written: {error.strerror or error}") from error
    is_ours = out.is_dir() and (not any(out.iterdir()) or Versions(out).numbers() or (out / ".lock").exists())
    if out.exists() and not is_ours:
        raise NotOurFolder(f"{out} exists and is no stream that was published by Takeup")
