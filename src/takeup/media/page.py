"""The page in every package: one file that plays the stream beside it from any web server.

It is put together from its parts here, so that it needs nothing else: no address of anybody, no library.
"""

import base64
import hashlib
import html
import os
from collections.abc import Sequence
from importlib.resources import files
from string import Template
from urllib.parse import quote

PLAYER, LIST = "index.html", "list.html"
PARTS = ("playlist.js", "choice.js", "track.js", "player.js", "texts.js", "controls.js", "main.js")
STYLE = "page.css"
TITLE = "Video"
POLICY = (
    "default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; img-src 'self' data:; "
    "media-src 'self' blob:; base-uri 'self'; form-action 'none'"
)


def player_page(title: str = "") -> str:
    """The page that plays the `master.m3u8` beside it."""
    return _filled(PLAYER, script=script(), title=_shown(title or TITLE))


def list_page(names: Sequence[str]) -> str:
    """The page that leads to packages, by the names of their folders."""
    entries = (f'<li><a href="{quote(os.fsencode(name))}/">{_shown(name)}</a></li>' for name in names)
    return _filled(LIST, entries="\n".join(entries))


def script() -> str:
    """All of the player; its parts see each other and nothing outside sees them."""
    return "\n".join(['(() => {\n"use strict";', *map(_part, PARTS), "})();\n"])


def _filled(name: str, *, script: str = "", **texts: str) -> str:
    style = _part(STYLE)
    policy = POLICY.format(script=_source(script) if script else "'none'", style=_source(style))
    return Template(_part(name)).substitute(texts, style=style, script=script, policy=policy)


def _shown(text: str) -> str:
    """As text, whatever it is; the name of a file need not be Unicode."""
    return html.escape(text.encode(errors="replace").decode())


def _source(text: str) -> str:
    """Exactly this text, as a content security policy names it."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _part(name: str) -> str:
    return files("takeup.media").joinpath("page", name).read_text("utf-8")
