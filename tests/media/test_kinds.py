"""Every kind of good source becomes a package that passes the check, picture by picture."""

import subprocess
from pathlib import Path

import pytest

from takeup.media.check.access import open_access
from takeup.media.check.judge import check
from takeup.media.source import look_at
from takeup.media.tools import Tools
from tests.media.building import build
from tests.media.kinds import FILES, KINDS, TURNS


def made(tools: Tools, name: str, folder: Path) -> Path:
    """The source of this kind."""
    for file, text in FILES.items():
        (folder / file).write_text(text)
    ending, recipe = KINDS[name]
    steps: list[tuple[object, ...]] = [(*recipe, f"source.{ending}")]
    if name in TURNS:
        steps.append(
            ("-display_rotation", TURNS[name], "-i", f"source.{ending}", "-c", "copy", f"turned.{ending}")
        )
    for step in steps:
        command = [tools.binaries.ffmpeg, "-v", "error", "-nostdin", "-y", *map(str, step)]
        subprocess.run(command, check=True, timeout=60, cwd=folder)
    return folder / str(steps[-1][-1])


@pytest.mark.parametrize("name", KINDS)
async def test_it_becomes_a_package_that_passes(tools: Tools, tmp_path: Path, name: str):
    file = made(tools, name, tmp_path)
    await build(tools, file, tmp_path, with_stills=True)
    report = await check(open_access(str(tmp_path / "out")), tools, look_at(file), is_thorough=True)
    assert report.findings == [], "\n".join(f"{f.rule} {f.where}: {f.message}" for f in report.findings)
