"""Runs simulated schedules in bulk: `python -m takeup.testing.chaos`.

Every schedule is one seed. A seed that breaks an invariant is printed with the faults it needs and with the
one command that replays it.
"""

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from takeup.core.ids import digest
from takeup.testing.mutants import MUTANTS
from takeup.testing.sim.plan import KINDS, draw
from takeup.testing.sim.run import FAIR, describe, run
from takeup.testing.sim.shrink import shrink
from takeup.testing.sim.world import Rules

CHUNK = 200
SHOWN_MAX = 10


@dataclass(slots=True)
class Tally:
    """What a range of seeds gave."""

    schedules: int = 0
    events: int = 0
    calls: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, str]] = field(default_factory=list)
    unequal: list[int] = field(default_factory=list)
    """Seeds that gave another history when run again."""

    def add(self, other: "Tally") -> None:
        """Count these too."""
        self.schedules += other.schedules
        self.events += other.events
        self.calls += other.calls
        self.counts += other.counts
        self.failures += other.failures
        self.unequal += other.unequal


@dataclass(frozen=True, slots=True)
class Job:
    """A range of seeds for one process."""

    first: int
    count: int
    mutant: str | None
    repeat_below: int
    """Seeds below this are run twice, and must give the same history."""


def rules_of(mutant: str | None) -> Rules:
    """The rules of a mutant, or those of the real thing."""
    return FAIR if mutant is None else MUTANTS[mutant].rules


def work(job: Job) -> Tally:
    """Run a range of seeds."""
    tally, rules = Tally(), rules_of(job.mutant)
    for seed in range(job.first, job.first + job.count):
        outcome = run(seed, rules)
        tally.schedules += 1
        tally.events += len(outcome.events)
        tally.calls += len(outcome.calls)
        tally.counts += outcome.counts
        if outcome.violations:
            tally.failures.append((seed, str(outcome.violations[0])))
        if seed < job.repeat_below and run(seed, rules).digest() != outcome.digest():
            tally.unequal.append(seed)
    return tally


def jobs(options: argparse.Namespace) -> Iterator[Job]:
    """The ranges of seeds to run."""
    last = options.seed + options.schedules
    for first in range(options.seed, last, CHUNK):
        repeat_below = options.seed + options.repeat
        yield Job(first, min(CHUNK, last - first), options.mutant, repeat_below)


def main(arguments: list[str] | None = None) -> int:
    """The command; 0 if nothing was broken."""
    options = parse(arguments)
    if options.replay is not None:
        return replay(options)
    if options.digest:
        hashes = [run(options.seed + number).digest() for number in range(options.digest)]
        say(digest("\n".join(hashes)))
        return 0
    begun, total = time.monotonic(), Tally()
    context = multiprocessing.get_context("spawn")
    with context.Pool(options.processes) as pool:
        for tally in pool.imap_unordered(work, jobs(options)):
            total.add(tally)
            for seed, text in tally.failures:
                say(f"\nseed {seed} breaks {text}")
            progress(total, options, begun)
            if options.mutant and total.failures:
                break
    summary(total, options, time.monotonic() - begun)
    return 1 if total.failures or total.unequal else 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m takeup.testing.chaos", description=__doc__)
    parser.add_argument("--schedules", type=int, default=200_000, help="how many seeds to run")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--repeat", type=int, default=1000, help="how many of them twice, to compare")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--mutant", choices=sorted(MUTANTS), help="run with this defect put in")
    parser.add_argument("--replay", type=int, metavar="SEED", help="run one seed and shrink it if it fails")
    parser.add_argument("--verbose", action="store_true", help="with --replay: print the history")
    parser.add_argument(
        "--digest", type=int, default=0, metavar="COUNT", help="print one hash of so many runs"
    )
    return parser.parse_args(arguments)


def replay(options: argparse.Namespace) -> int:
    """Run one seed, and say what it breaks and which faults it takes."""
    rules = rules_of(options.mutant)
    outcome = run(options.replay, rules)
    plan = draw(options.replay)
    if outcome.violations:
        kept, outcome = shrink(options.replay, rules)
        say(f"of {len(plan.faults)} faults, these {len(kept)} are needed:")
        for number in sorted(kept):
            say(f"  {plan.faults[number]}")
    if options.verbose:
        say("\n".join(describe(outcome)))
    for violation in outcome.violations:
        say(str(violation))
    say(f"seed {options.replay}: {len(outcome.violations)} violations, {len(outcome.events)} events")
    return 1 if outcome.violations else 0


def progress(total: Tally, options: argparse.Namespace, begun: float) -> None:
    """One line that is written over again."""
    rate = total.schedules / max(time.monotonic() - begun, 0.001)
    bad = len(total.failures) + len(total.unequal)
    text = f"{total.schedules:,} of {options.schedules:,} schedules, {rate:.0f}/s, {bad} failed"
    if sys.stdout.isatty():
        sys.stdout.write(f"\r{text} ")
        sys.stdout.flush()
    elif total.schedules % (CHUNK * 50) == 0:
        say(text)


def summary(total: Tally, options: argparse.Namespace, seconds: float) -> None:
    """What was run, what went wrong on purpose, and what was broken."""
    mutant = f" --mutant {options.mutant}" if options.mutant else ""
    for seed, text in total.failures[:SHOWN_MAX]:
        kept, _ = shrink(seed, rules_of(options.mutant))
        plan = draw(seed)
        say(f"\nseed {seed} breaks {text}")
        say("  needs: " + (", ".join(str(plan.faults[n]) for n in sorted(kept)) or "no fault at all"))
        say(f"  replay: python -m takeup.testing.chaos --replay {seed}{mutant} --verbose")
    for seed in total.unequal[:SHOWN_MAX]:
        say(f"\nseed {seed} gave another history when it was run again")
    crashes = total.counts["crash"] + total.counts["crash_point"] + total.counts["last_words"]
    say(f"\n{total.schedules:,} schedules in {seconds:.0f} s, {total.schedules / max(seconds, 0.001):.0f}/s")
    say(f"{total.events:,} events, {total.calls:,} client log lines, {crashes:,} crashes")
    say("faults: " + ", ".join(f"{kind} {total.counts[kind]:,}" for kind in sorted(set(KINDS))))
    say(f"violations: {len(total.failures)} schedules, unequal histories: {len(total.unequal)}")


def say(text: str) -> None:
    """Write a line."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
