"""Takes secrets out of texts before they are logged or stored."""

import re

HIDDEN = "[hidden]"

_CREDENTIALS = re.compile(r"(?<=://)[^/\s:@]*:[^/\s@]+(?=@)")
_NAMED = re.compile(
    r"(?i)\b([\w-]*(?:password|passwd|secret|token|api[_-]?key|access[_-]?key|signature|credential)[\w-]*"
    r"[\"']?\s*[=:]\s*[\"']?)(?!\[hidden\])[^\s\"'&,;]+"
)
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}")


def redact(text: str) -> str:
    """The text with the values of passwords, tokens and keys hidden."""
    text = _CREDENTIALS.sub(HIDDEN, text)
    text = _NAMED.sub(lambda match: match[1] + HIDDEN, text)
    return _BEARER.sub(lambda match: f"{match[1]} {HIDDEN}", text)
