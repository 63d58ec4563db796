"""What `takeup check` does."""

import argparse
import sys
from contextlib import suppress

from takeup.cli.main import complain
from takeup.cli.options import settings_of
from takeup.cli.printing import line, print_json, table
from takeup.core.errors import InvalidInput
from takeup.media.abilities import find_vmaf
from takeup.media.binaries import Binaries
from takeup.media.check import judge
from takeup.media.check.access import NoPackage, open_access
from takeup.media.check.judge import Step
from takeup.media.check.report import Report
from takeup.media.errors import NoTools
from takeup.media.source import look_at
from takeup.media.tools import Tools, tools_of

UNREADABLE = 2
FINDINGS_SHOWN_MAX = 30


async def check(options: argparse.Namespace) -> int:
    """Judge the package; exit 0 only without an error."""
    settings = settings_of(options, log_level="warning")
    tools = tools_of(settings)
    if options.vmaf and not options.source:
        raise InvalidInput("--vmaf compares with the source", advice="Name it: --source FILE.")
    against = None
    if options.source:
        source = look_at(options.source)
        measuring = await measuring_tools(tools) if options.vmaf else None
        against = judge.Against(source, is_thorough=options.thorough, measuring=measuring)
    shown = Shown()
    try:
        report = await judge.check(
            open_access(options.package),
            tools,
            against,
            decodes=options.decodes,
            on_progress=shown.show,
        )
    except NoPackage as error:
        return complain(f"{str(error).rstrip('.')}. {error.help}", UNREADABLE)
    finally:
        shown.clear()
    if options.json:
        print_json({"package": options.package, "ok": report.ok, **counts(report), "facts": report.facts,
                    "verdicts": report.verdicts})  # fmt: skip
    else:
        show(report)
        show_quality(report)
    return 0 if report.ok else 1


async def measuring_tools(tools: Tools) -> Binaries:
    """The tools that measure VMAF."""
    found = await find_vmaf(tools.binaries)
    if found is None:
        raise NoTools(
            "no ffmpeg here measures VMAF", advice="Install takeup[quality], which brings one that does."
        )
    return found


def show_quality(report: Report) -> None:
    """How good every rung is, if that was measured."""
    measured = [(track["name"], track["vmaf"]) for track in report.facts["tracks"] if "vmaf" in track]
    if measured:
        rows = [(name, f"{one.mean:.1f}", f"{one.lowest:.1f}", one.frames) for name, one in measured]
        table(("rung", "vmaf", "lowest hundredth", "frames"), rows)


def counts(report: Report) -> dict[str, int]:
    """How many rules ended in which way."""
    return {
        "passed": report.count("passed"),
        "errors": report.count("failed", "error"),
        "warnings": report.count("failed", "warning"),
        "not_applicable": report.count("not applicable"),
    }


def show(report: Report) -> None:
    """What is wrong, and the verdict in one line."""
    found = report.findings
    if found:
        rows = [(f.rule, f.severity, f.where, f.message) for f in found[:FINDINGS_SHOWN_MAX]]
        table(("rule", "severity", "where", "what is wrong"), rows)
        for hint in dict.fromkeys(f"{f.rule}: {f.hint}" for f in found[:FINDINGS_SHOWN_MAX]):
            line(hint)
        if len(found) > FINDINGS_SHOWN_MAX:
            line(f"and {len(found) - FINDINGS_SHOWN_MAX} more; --json lists all")
    number = counts(report)
    word = "ok" if report.ok else "not ok"
    line(
        f"{word}: {number['passed']} rules passed, {number['errors']} failed, {number['warnings']} with "
        f"warnings, {number['not_applicable']} do not apply"
    )


class Shown:
    """One line on a terminal that says how far the check is."""

    def __init__(self) -> None:
        """Nothing was shown yet."""
        self._last = ""

    def show(self, step: Step) -> None:
        """Say it, if somebody looks and it is new."""
        part = f"{step.done}" if not step.total else f"{100 * step.done // step.total} %"
        text = f"{step.what} {part}"
        if text != self._last and sys.stderr.isatty():
            self._last = text
            self._write(f"\r\x1b[K{text}")

    def clear(self) -> None:
        """Leave no trace."""
        if self._last:
            self._write("\r\x1b[K")

    @staticmethod
    def _write(text: str) -> None:
        with suppress(OSError):
            sys.stderr.write(text)
            sys.stderr.flush()
