"""A clip is sent to a real server, made a stream by its worker and watched by its slug, as the guide says."""

import json
import re
import signal
import subprocess
from pathlib import Path

import pytest

from takeup.media.binaries import find
from tests.cli.conftest import Cli, environment
from tests.cli.test_serve import WAIT_S, Served

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "videos.md"
SHELL = re.compile(r"```sh\n(.*?)```", re.DOTALL)
CLIP = (
    "-f",
    "lavfi",
    "-i",
    "testsrc2=size=96x54:rate=10:duration=1",
    "-c:v",
    "libx264",
    "-preset",
    "ultrafast",
)


@pytest.fixture
def served(tmp_path: Path) -> Served:
    (tmp_path / "demo.py").write_text(
        "from takeup import Pipeline\n\ndemo = Pipeline('demo')\n\n"
        "@demo.stage()\ndef only(ctx):\n    return {}\n"
    )
    return Served(tmp_path)


def test_the_guide_from_the_first_line_to_the_last(tmp_path: Path, cli: Cli, served: Served):
    try:
        clip = tmp_path / "clip.mp4"
        subprocess.run([find().ffmpeg, "-v", "error", *CLIP, clip], check=True, timeout=60)
        key = cli("keys", "create", "mine", "--role", "operator").stdout.strip()
        ran = subprocess.run(
            ["/bin/bash", "-euo", "pipefail", "-c", "\n".join(SHELL.findall(GUIDE.read_text("utf-8")))],
            cwd=tmp_path,
            env=environment(KEY=key, HERE=served.address, no_proxy="*"),
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        told = ran.stdout
        assert '"slug":"my-clip"' in told
        assert "v1/54p/index.m3u8" in told, told
        assert "HTTP/1.1 307" in told
        shown = [json.loads(line) for line in told.splitlines() if line.startswith('{"id":"vid_')]
        (ready,) = [one for one in shown if one.get("status") == "ready" and one["title"] == "My clip"][:1]
        assert (ready["served_version"], ready["error"]) == (1, None)
        (rung,) = ready["qualities"]
        assert (rung["name"], rung["width"], rung["height"]) == ("54p", 96, 54)
        assert (tmp_path / "saved.mp4").read_bytes() == clip.read_bytes()
        assert f'{{"id":"{ready["id"]}","served_version":1}}' in told
        assert "there are: v1, v2" in told
        jobs = served.ask("/api/jobs", key)["items"]
        assert len(jobs) == 3
        remade = [one for one in jobs if one["generation"] == 2]  # type: ignore[index]
        assert [one["status"] for one in remade] == ["completed"]  # type: ignore[index]
        assert "unknown_pipeline" in told, "a transcode of any file of the server is nobody's to ask for"
    finally:
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(WAIT_S) == 0
        assert served.process.stderr
        served.process.stderr.close()
