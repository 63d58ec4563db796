"""How loud a track is (EBU R 128): measured while it is encoded, and the gain that brings it to a target."""

import math
import re
from dataclasses import dataclass
from pathlib import Path

PEAK_MOST_DBTP = -1.0
"""No sample between the samples may be louder, or players distort."""
SILENCE_LUFS = -70.0
ROUNDING = 0.0005
"""Peaks are written with three digits."""
TAIL_BYTES = 4096
KEYS = {"integrated": "lavfi.r128.I", "peak": "lavfi.r128.true_peak"}
SPECIAL_IN_OPTION, SPECIAL_IN_GRAPH = re.compile(r"([\\':])"), re.compile(r"([\\'\[\],;])")


@dataclass(frozen=True, slots=True)
class Loudness:
    """Of a whole track."""

    integrated_lufs: float
    peak_dbtp: float

    def gain_to(self, target_lufs: float) -> float:
        """The decibels that make it as loud as wanted, or as its peaks allow; silence is left alone."""
        if self.integrated_lufs <= SILENCE_LUFS:
            return 0.0
        return min(target_lufs - self.integrated_lufs, PEAK_MOST_DBTP - self.peak_dbtp)


def meter(folder: Path) -> str:
    """The filters that measure, and write what they found up to each moment into files of this folder."""
    prints = [f"ametadata=mode=print:key={key}:file={_escaped(folder / name)}" for name, key in KEYS.items()]
    return ",".join(["ebur128=peak=true:metadata=1", *prints])


def take(folder: Path) -> Loudness:
    """What the meter found; a track shorter than its window counts as silent."""
    integrated, peak = (_last(folder / name, key) for name, key in KEYS.items())
    if integrated is None or peak is None:
        return Loudness(SILENCE_LUFS, SILENCE_LUFS)
    return Loudness(integrated, round(20 * math.log10(peak + ROUNDING), 2))


def _last(file: Path, key: str) -> float | None:
    """The last value of this key; the file of a long track is long, and only its end is read."""
    if not file.exists():
        return None
    with file.open("rb") as lines:
        lines.seek(max(file.stat().st_size - TAIL_BYTES, 0))
        found = re.findall(
            rf"^{re.escape(key)}=(\S+)$", lines.read().decode("ascii", "replace"), re.MULTILINE
        )
    return float(found[-1]) if found else None


def _escaped(path: Path) -> str:
    """A path as an option of a filter in a graph: both levels read signs of their own."""
    option = SPECIAL_IN_OPTION.sub(r"\\\1", str(path))
    return SPECIAL_IN_GRAPH.sub(r"\\\1", option)
