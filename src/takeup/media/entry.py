"""The files by which a stream is entered from outside its version: their addresses lead into it."""

import re
from collections.abc import Callable
from pathlib import Path

from takeup.media.errors import MediaError
from takeup.media.package import MANIFEST, MASTER, PAGE

ADDRESS = re.compile(r'URI="([^"]*)"')
BASE = re.compile(r"(<MPD\b[^>]*>)")
HEAD = re.compile(r"(<head>)", re.IGNORECASE)


def entries(package: Path, folder: str) -> dict[str, bytes]:
    """Master playlist, manifest and page of this package as they stand beside its folder of this name."""
    ways: dict[str, Callable[[str], str]] = {
        MASTER: lambda text: _playlist(text, folder),
        MANIFEST: lambda text: _insert(BASE, f"<BaseURL>{folder}/</BaseURL>", text),
        PAGE: lambda text: _insert(HEAD, f'<base href="{folder}/">', text),
    }
    there = {name: (package / name).read_text("utf-8") for name in ways if (package / name).exists()}
    return {name: ways[name](text).encode() for name, text in there.items()}


def _playlist(text: str, folder: str) -> str:
    """Every address of the playlist, on lines of their own and in attributes, led into the folder."""
    lines = []
    for line in text.splitlines():
        if line.startswith("#"):
            lines.append(ADDRESS.sub(rf'URI="{folder}/\1"', line))
        else:
            lines.append(f"{folder}/{line}" if line else line)
    return "\n".join([*lines, ""])


def _insert(after: re.Pattern[str], what: str, text: str) -> str:
    changed, count = after.subn(rf"\1{what}", text, count=1)
    if count != 1:
        raise MediaError(f"there is no place for {what}")
    return changed
