"""The pages tell the truth: every link between them leads somewhere, and every file of the map exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/**/*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)#:]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    broken = [link for link in LINK.findall(page.read_text("utf-8")) if not (page.parent / link).exists()]
    assert broken == []


def test_every_file_that_the_map_names_exists():
    tree = (ROOT / "ARCHITECTURE.md").read_text("utf-8").partition("## The tree")[2].partition("```")[2]
    folder = ROOT / "src/takeup"
    names = re.findall(r"^ {4}(\w+\.py|\w+/)", tree.partition("```")[0], re.MULTILINE)
    assert names
    missing = [name for name in names if not any(folder.glob(f"*/{name.rstrip('/')}"))]
    assert missing == []
