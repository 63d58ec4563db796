"""Every kind of good source becomes a package that passes the check, picture by picture."""

from pathlib import Path

import pytest

from takeup.media.check.access import open_access
from takeup.media.check.judge import Against, check
from takeup.media.source import look_at
from takeup.media.tools import Tools
from tests.media.building import build
from tests.media.kinds import KINDS, made


@pytest.mark.parametrize("name", KINDS)
async def test_it_becomes_a_package_that_passes(tools: Tools, tmp_path: Path, name: str):
    file = made(tools.binaries.ffmpeg, name, tmp_path)
    await build(tools, file, tmp_path, with_stills=True)
    against = Against(look_at(file), is_thorough=True)
    report = await check(open_access(str(tmp_path / "out")), tools, against)
    assert report.findings == [], "\n".join(f"{f.rule} {f.where}: {f.message}" for f in report.findings)
