"""The page in every package: one file that plays the stream beside it from any web server.

It is put together from its parts here, so that it needs nothing else: no address of anybody, no library.
"""

import base64
import hashlib
import html
from collections.abc import Sequence
from importlib.resources import files
from string import Template
from urllib.parse import quote

TEMPLATE = "index.html"
PARTS = ("playlist.js", "choice.js", "track.js", "player.js", "texts.js", "controls.js", "main.js")
STYLE = "page.css"
TITLE = "Video"
POLICY = (
    "default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; img-src 'self' data:; "
    "media-src 'self' blob:; base-uri 'self'; form-action 'none'"
)
LIST = Template(
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    '<meta http-equiv="Content-Security-Policy" content="$policy">\n'
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    "<title>Streams</title>\n<style>$style</style>\n</head>\n"
    "<body>\n<main>\n<h1>Streams</h1>\n<ul>\n$entries\n</ul>\n</main>\n</body>\n</html>\n"
)


def player_page(title: str = "") -> str:
    """The page that plays the `master.m3u8` beside it."""
    return _filled(Template(_part(TEMPLATE)), script=script(), title=html.escape(title or TITLE))


def list_page(names: Sequence[str]) -> str:
    """The page that leads to packages, by the names of their folders."""
    entries = (f'<li><a href="{quote(name)}/">{html.escape(name)}</a></li>' for name in names)
    return _filled(LIST, entries="\n".join(entries))


def script() -> str:
    """All of the player; its parts see each other and nothing outside sees them."""
    return "\n".join(['(() => {\n"use strict";', *map(_part, PARTS), "})();\n"])


def _filled(template: Template, *, script: str = "", **texts: str) -> str:
    style = _part(STYLE)
    policy = POLICY.format(script=_source(script) if script else "'none'", style=_source(style))
    return template.substitute(texts, style=style, script=script, policy=policy)


def _source(text: str) -> str:
    """Exactly this text, as a content security policy names it."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _part(name: str) -> str:
    return files("takeup.media").joinpath("page", name).read_text("utf-8")
