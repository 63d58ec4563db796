"""Why a tool failed, in one line, and whether it is the source's fault, the disk's or the tool's."""

import errno
import os
import re
import signal
from pathlib import Path

from takeup.child.run import Ended
from takeup.core.errors import TakeupError
from takeup.media.errors import (
    LimitReached,
    MediaError,
    NotMedia,
    TooLarge,
    ToolCrashed,
    ToolFailed,
    ToolStarved,
    UnknownCodec,
)
from takeup.media.words import one_line

WORDS_LINES = 2
WORDS_CHARS_MAX = 400
NO_SPACE, TOO_BIG = os.strerror(errno.ENOSPC), os.strerror(errno.EFBIG)
NO_MEMORY = (os.strerror(errno.ENOMEM), "Out of memory")
MAY_PASS = ("Resource temporarily unavailable", "Input/output error")
"""Words of the tools after which another try may end better; whatever else they say would be said again."""
CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGILL, signal.SIGBUS, signal.SIGFPE)
WRAPPED = re.compile(r"\[[^\]]* @ 0x[0-9a-f]+\] |file:\S*/")
"""Where in its code a tool speaks from, and the folder of a file: of no use to who reads the reason."""
REASONS: tuple[tuple[str, type[MediaError], str], ...] = (
    (r"\[(\w+)[^\]]*\] Format not on whitelist", NotMedia, "it is of the kind {}, which is not taken"),
    (r"Codec \((\w+)\) not on whitelist", UnknownCodec, "its codec {} is not one that is decoded here"),
    (r"exceeds max_streams parameter \((\d+)\)", TooLarge, "it has more than {} streams"),
    (r"moov atom not found", NotMedia, "it is no media file, or its end was cut off (no moov)"),
)
"""What the tools say of sources, and how that is told."""


def failure(ended: Ended, *, file_bytes: int | None = None) -> TakeupError | OSError:
    """The error for a tool that failed or was stopped, which may write files of so many bytes."""
    tool, words = Path(ended.command[0]).name, last_words(ended.stderr)
    if NO_SPACE in ended.stderr:
        return OSError(errno.ENOSPC, f"{tool} found no space: {words}")
    if ended.stopped:
        how = "made no progress" if ended.stopped == "stalled" else "took too long"
        return ToolStarved(
            f"limits: {tool} {how} and was stopped after {ended.duration_ms // 1000} s: {words}"
        )
    if ended.exit_code == -signal.SIGXFSZ or TOO_BIG in ended.stderr:
        return LimitReached(f"limits: {tool} wrote a file of more than {file_bytes} bytes: {words}")
    return _killed(tool, -ended.exit_code, words) if ended.exit_code < 0 else _told(tool, ended, words)


def _killed(tool: str, number: int, words: str) -> TakeupError:
    if number == signal.SIGXCPU:
        return LimitReached(f"limits: {tool} used more time of the processor than it may: {words}")
    if number in CRASHES:
        return ToolCrashed(f"{tool} crashed ({signal.Signals(number).name}): {words}")
    return ToolFailed(f"{tool} was killed by signal {number}: {words}")


def _told(tool: str, ended: Ended, words: str) -> TakeupError:
    """What a tool that ended by itself said."""
    for pattern, kind, reason in REASONS:
        if found := re.search(pattern, ended.stderr):
            return kind("the source cannot be used: " + reason.format(*found.groups()))
    if any(sign in ended.stderr for sign in NO_MEMORY):
        return ToolStarved(f"limits: {tool} got no more memory: {words}")
    if any(sign in ended.stderr for sign in MAY_PASS):
        return ToolFailed(f"{tool} ended with {ended.exit_code}: {words}")
    return MediaError(f"the source cannot be decoded: {words}")


def last_words(stderr: str) -> str:
    """The end of what a tool said, without what only its makers understand."""
    lines = [one_line(line, WORDS_CHARS_MAX) for line in stderr.strip().splitlines()[-WORDS_LINES:]]
    return " / ".join(WRAPPED.sub("", line) for line in lines)[:WORDS_CHARS_MAX] or "it said nothing"
