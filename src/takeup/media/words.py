"""Words of strangers: of files and of tools that repeat what files say."""

TEXT_CHARS_MAX = 200


def one_line(text: str, most: int = TEXT_CHARS_MAX) -> str:
    """Printable, in one line, not long; what moves a cursor or hides text becomes a space."""
    head = text[: 4 * most]
    return " ".join("".join(c if c.isprintable() else " " for c in head).split())[:most]
