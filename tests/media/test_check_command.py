"""`takeup check` says what is wrong in a table and one line, or as JSON, and by its exit code."""

import json
from pathlib import Path

import pytest

from takeup.cli.main import main
from tests.media import damage as d


def test_a_good_package_passes(good: Path, source: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["check", str(good), "--source", str(source)]) == 0
    told = capsys.readouterr()
    assert told.out.startswith("ok: ")
    assert ", 0 failed, 0 with warnings, " in told.out
    assert told.err == "", "nobody looks, so nothing moves"


def test_a_defect_is_shown_with_what_to_do(copy: Path, capsys: pytest.CaptureFixture[str]):
    d.without(f"{d.BIG}/index.m3u8", "#EXT-X-ENDLIST\n")(copy)
    assert main(["check", str(copy), "--no-decode"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["RULE", "SEVERITY", "WHERE", "WHAT", "IS", "WRONG"]
    assert lines[1].split()[:3] == ["C23.end", "error", f"{d.BIG}/index.m3u8"]
    assert lines[2] == "C23.end: Write EXT-X-ENDLIST as the last line."
    assert lines[-1].startswith("not ok: ")


def test_json_has_every_rule(good: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["check", str(good / d.MASTER), "--no-decode", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is True
    assert told["facts"]["dash"] is False, "one playlist was named, and only that is judged"
    states = [verdict["state"] for verdict in told["verdicts"]]
    assert told["passed"] == states.count("passed")
    assert told["not_applicable"] == states.count("not applicable")
    assert all(verdict["why"] for verdict in told["verdicts"] if verdict["state"] == "not applicable")


def test_quality_is_measured_of_every_rung(good: Path, source: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["check", str(good), "--source", str(source), "--vmaf", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)["facts"]
    scores = {Path(t["name"]).parts[0]: t["vmaf"] for t in facts["tracks"] if t["kind"] == "picture"}
    assert all(0 < score["lowest"] <= score["mean"] <= 100 for score in scores.values())
    assert scores[d.BIG]["mean"] > scores[d.SMALL]["mean"] + 5
    assert scores[d.BIG]["mean"] > 70, "each picture was compared with its own"


def test_quality_is_measured_against_a_source(good: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["check", str(good), "--vmaf"]) == 1
    assert capsys.readouterr().err == "takeup: --vmaf compares with the source. Name it: --source FILE.\n"


@pytest.mark.parametrize("where", ["nowhere", ".", "ftp://host/x.m3u8", "http://127.0.0.1:9/x.m3u8"])
def test_what_cannot_be_read_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, where: str
):
    monkeypatch.chdir(tmp_path)
    assert main(["check", where]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("takeup: ")
    assert told.err.count("\n") == 1
