"""What `takeup transcode` does."""

import argparse
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from takeup.app import make_folder, open_app
from takeup.artifacts.layout import MANIFEST, output_key
from takeup.cli.options import settings_of
from takeup.cli.printing import print_json, table
from takeup.cli.progress import say, show_result
from takeup.cli.run import (
    find_or_submit,
    found_before,
    only_one,
    run_here,
    warn_of_space,
    worker_of,
)
from takeup.config import Settings
from takeup.core.errors import InvalidInput
from takeup.core.model import Job
from takeup.media import binaries, profile
from takeup.media.choice import choose
from takeup.media.package import MASTER
from takeup.media.plan import Plan, plan
from takeup.media.source import Source, look_at
from takeup.media.survey import survey
from takeup.media.tools import Tools
from takeup.pipelines.transcode import transcode as pipeline
from takeup.telemetry import logs

PIPELINE = "takeup.pipelines.transcode:transcode"


class NotOurFolder(InvalidInput):
    """The output folder holds something that is no package, or cannot be written."""

    help = "Choose another folder with -o DIR."


async def transcode(options: argparse.Namespace) -> int:
    """Plan, encode and package the source, and put the stream where it is wanted."""
    settings = settings_of(options, log_level="warning")
    logs.configure(style=settings.log_format, level=settings.log_level)  # type: ignore[arg-type]
    source = look_at(options.source)
    wanted = profile.load(options.profile)
    if options.dry_run:
        show_plan(await plan_of(settings, source, wanted), as_json=options.json)
        return 0
    out: Path = options.output or Path(f"{options.source.stem}-stream")
    check_folder(out)
    make_folder(settings.data_dir)
    warn_of_space(settings)
    with only_one(settings.data_dir):
        async with open_app(settings) as app:
            job, is_new = await find_or_submit(app, pipeline, spec_of(source, options.profile))
            if not is_new:
                say(found_before(job))
            if job.finished_at is None:
                job = await run_here(app, worker_of(app, settings, PIPELINE, options), job)
            if job.status != "completed" or options.json:
                artifacts = await app.store.read.artifacts(job.id)
                show_result(job, artifacts, settings.storage, as_json=options.json)
    if job.status != "completed":
        return 1
    put(settings.storage / package_of(job), out)
    say(f"the stream is {out / MASTER}")
    return 0


def package_of(job: Job) -> str:
    """Where the package of this job lies; a long one has more files than anybody wants to list."""
    versioned = f"{pipeline.name}.v{pipeline.version}"
    return output_key(versioned, job.id, job.generation, "package", pipeline.get("package").version, None)


def spec_of(source: Source, wanted: str) -> dict[str, Any]:
    """The job of this source as it is now: a changed file is another job, the same one is found again."""
    return {
        "source": str(source.path),
        **source.version,
        "profile": wanted if wanted in profile.names() else str(Path(wanted).resolve()),
    }


async def plan_of(settings: Settings, source: Source, wanted: profile.Profile) -> Plan:
    """The plan of a source, which is only looked at."""
    tools = Tools(binaries.find(settings.ffmpeg_path, settings.ffprobe_path))
    with tempfile.TemporaryDirectory() as folder:
        found = await survey(tools, source, Path(folder) / "copy.mkv")
    return plan(found.probe, found.index, await choose(tools.binaries, wanted))


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


def check_folder(out: Path) -> None:
    """Refuse to replace what is no package, and a place that cannot be written, before any work is done."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out.parent):
            pass
    except OSError as error:
        raise NotOurFolder(f"{out} cannot be written: {error.strerror or error}") from error
    if out.exists() and not (out.is_dir() and (not any(out.iterdir()) or (out / MASTER).is_file())):
        raise NotOurFolder(f"{out} exists and is no package of a stream")


def put(package: Path, out: Path) -> None:
    """Copy a package beside its place and swap it in by two renames, so that nobody sees half of one."""
    out = out.resolve()
    new, old = (out.with_name(f".{out.name}.{word}-{os.getpid()}") for word in ("new", "old"))
    try:
        shutil.copytree(package, new, ignore=shutil.ignore_patterns(MANIFEST))
        if out.exists():
            out.rename(old)
        new.rename(out)
    finally:
        shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
