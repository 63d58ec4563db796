"""`takeup control import`."""

import argparse
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from takeup.cli.main import complain
from takeup.cli.opening import ring
from takeup.cli.printing import line, print_json
from takeup.cli.submit import pipeline_named
from takeup.core.errors import InvalidInput, StoreConfig
from takeup.pipelines.control import ImportReport, import_control
from takeup.store.drivers.embedded import path_of
from takeup.store.store import Store

REPORT_SUFFIXES = (".csv", ".json")
PART = ".part"


class ReportNotWritten(StoreConfig):
    """The import is done, but not its report."""

    help = "Run the import again with another --report: rows that were imported are reported as present."


async def import_table(options: argparse.Namespace) -> int:
    """Import, tell what became of the rows; exit 1 if some of them could only be kept as they were."""
    pipeline = pipeline_named(options.pipeline)
    stages = stages_of(options.stage_map or ())
    source = Path(options.file)
    if not source.is_file():  # noqa: ASYNC240 - nothing else runs here; said before a database is made
        raise InvalidInput(f"there is no file {source}")
    target = report_at(options.report, source)
    async with _into(options.into, source) as store:
        report = await import_control(source, pipeline, store, stages=stages)
        if store is not None:
            await ring(store)
    if target is not None:
        write_report(report, target)
    if options.json:
        print_json(report.as_json())
    else:
        for text in report.summary():
            line(text)
    kept = report.counts["kept"]
    if kept:
        return complain(f"{kept} rows have no job, see their notes; they are in {report.table} as before", 1)
    return 0


def stages_of(texts: Sequence[str]) -> dict[str, str]:
    """What --stage-map says."""
    stages: dict[str, str] = {}
    for text in texts:
        old, sign, new = text.partition("=")
        if not (old and sign and new):
            raise InvalidInput(f"--stage-map {text!r} is not OLD=NEW")
        if stages.setdefault(old, new) != new:
            raise InvalidInput(f"--stage-map names {old!r} twice")
    return stages


def report_at(text: str | None, source: Path) -> Path | None:
    """Where the report goes, known to be possible before anything is imported."""
    if text is None:
        return None
    path = Path(text)
    if path.suffix not in REPORT_SUFFIXES:
        raise InvalidInput(f"--report {text} must end in {' or '.join(REPORT_SUFFIXES)}")
    if path.resolve() == source.resolve():
        raise InvalidInput(f"--report {text} is the file to import")
    try:
        part = _part(path)
        part.touch()
        part.unlink()
    except OSError as error:
        raise InvalidInput(f"--report {text} cannot be written: {error.strerror}") from error
    return path


def write_report(report: ImportReport, path: Path) -> None:
    """The whole report or none under its name."""
    part = _part(path)
    try:
        with part.open("w", encoding="utf-8", newline="") as file:
            if path.suffix == ".csv":
                report.write_csv(file)
            else:
                json.dump(report.as_json(), file, ensure_ascii=False, indent=1)
        part.replace(path)
    except OSError as error:
        raise ReportNotWritten(f"all rows were imported, but {path} cannot be written: {error}") from error


def _part(path: Path) -> Path:
    return path.with_name(path.name + PART)


@asynccontextmanager
async def _into(url: str | None, source: Path) -> AsyncIterator[Store | None]:
    """The other database, if there is one; an embedded one is made or brought up to date."""
    is_embedded = url is not None and urlsplit(url).scheme in ("sqlite", "duckdb")
    if url is None or (is_embedded and _is_file(url, source)):
        yield None
        return
    store = await Store.open(url, upgrade=is_embedded)
    try:
        yield store
    finally:
        await store.close()


def _is_file(url: str, source: Path) -> bool:
    path = path_of(url)
    return path is not None and path.resolve() == source.resolve()
