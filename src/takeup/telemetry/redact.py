"""Takes secrets out of texts before they are logged or stored; every pattern is bounded, so none is slow."""

import re

HIDDEN = "[hidden]"

_WORD = r"(?:password|passwd|secret|token|api[_-]?key|access[_-]?key|signature|credential)"
_CREDENTIALS = re.compile(r"(?<=://)[^/\s:@]{0,256}:[^/\s@]{1,1024}(?=@)")
_NAMED = re.compile(
    rf"(?i)({_WORD}[\w-]{{0,40}}[\"']?\s{{0,4}}[=:]\s{{0,4}}[\"']?)(?!\[hidden\])[^\s\"'&,;]+"
)
_FLAG = re.compile(rf"(?i)((?<![\w-])--?[\w-]{{0,40}}{_WORD}[\w-]{{0,40}}[\"']?\s{{1,4}})(?!\[hidden\]|-)\S+")
_KEY = re.compile(r"takeup_(wrk|key|ses|set)_([0-9a-f]{1,12})_[0-9A-Za-z]{8,}")
_SIGNING = re.compile(r"whsec_[A-Za-z0-9+/=_-]{8,}")
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s{1,4}[A-Za-z0-9._~+/=-]{8,}")


def redact(text: str) -> str:
    """The text with the values of passwords, tokens and keys hidden."""
    text = _CREDENTIALS.sub(HIDDEN, text)
    text = _KEY.sub(lambda match: f"takeup_{match[1]}_{match[2]}_{HIDDEN}", text)
    text = _SIGNING.sub(f"whsec_{HIDDEN}", text)
    text = _NAMED.sub(lambda match: match[1] + HIDDEN, text)
    text = _FLAG.sub(lambda match: match[1] + HIDDEN, text)
    return _BEARER.sub(lambda match: f"{match[1]} {HIDDEN}", text)


def presentable(text: str) -> str:
    """The text without secrets and without what no database can hold."""
    clean = text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")
    return redact(clean)
