"""Each rule fires on a planted fault, and only that rule does."""

from pathlib import Path

import pytest

from tests.tidy import rules

DOC = '"""What this is."""\n'
CORE = "src/takeup/core/plan.py"
LONG = "def f():\n" + "    x = 1\n" * 60
LONG_DOC = 'def f():\n    """One.\n' + "\n    two\n" * 40 + '    """\n' + "    x = 1\n" * 50
HOME = "/" + "home/me/video"
OPEN_MARK = "TO" + "DO"
ADDRESS = "https:" + "//index.example/simple"

PLANTED = [
    (rules.long_files, "bench/run.py", DOC + "x = 1\n" * 400),
    (rules.long_files, "src/takeup/store/sql/task.sql", "SELECT 1;\n" * 401),
    (rules.long_files, "scripts/setup", "true\n" * 401),
    (rules.long_functions, "src/takeup/worker.py", DOC + LONG),
    (rules.long_functions, "tests/unit/test_worker.py", DOC + "async " + LONG),
    (rules.banned_names, "src/takeup/utils.py", DOC),
    (rules.banned_names, "tests/common/test_x.py", DOC),
    (rules.missing_docstrings, "src/takeup/worker.py", "x = 1\n"),
    (rules.missing_docstrings, "src/takeup/__init__.py", ""),
    (rules.impure_core, CORE, DOC + "import time\n"),
    (rules.impure_core, CORE, DOC + "from random import choice\n"),
    (rules.impure_core, CORE, DOC + "import pydantic.fields\n"),
    (rules.impure_core, CORE, DOC + "import datetime\nx = datetime.datetime.now()\n"),
    (rules.impure_core, CORE, DOC + "from datetime import datetime\nx = datetime.now\n"),
    (rules.impure_core, CORE, DOC + "import os\nx = os.environ['X']\n"),
    (rules.impure_core, CORE, DOC + "from os import environ\n"),
    (rules.impure_core, CORE, DOC + "def f():\n    return open('x')\n"),
    (rules.machine_paths, "README.md", f"see {HOME}\n"),
    (rules.machine_paths, "src/takeup/worker.py", DOC + f"x = '{HOME}'\n"),
    (rules.machine_paths, "requirements/dev.txt", f"takeup @ file://{HOME}\n"),
    (rules.unfinished, "docs/start.md", f"{OPEN_MARK}: write this\n"),
    (rules.unfinished, "src/takeup/worker.py", DOC + f"x = 1  # {OPEN_MARK} later\n"),
    (rules.addresses, "requirements/dev.txt", f"--index-url {ADDRESS}\n"),
    (rules.addresses, "ui/package-lock.json", f'{{"resolved": "{ADDRESS}"}}\n'),
]

FOLDER = "work"  # a word of a URL is no path of a machine

ALLOWED = {
    "README.md": f"The project lives at {ADDRESS}; `GET /api/{FOLDER}/1`\n",
    "requirements/dev.txt": "pytest==9.2.0 --hash=sha256:00\n",
    "src/takeup/core/plan.py": DOC
    + LONG_DOC
    + "def g(datetime, clock):\n    return clock.now(), datetime.max\n",
    "src/takeup/worker.py": DOC + "import time\n\nx = time.time()\n",
    "tests/test_x.py": "x = 1\n" * 400,
}


def plant(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


@pytest.mark.parametrize(("rule", "path", "text"), PLANTED)
def test_a_planted_fault_is_found(tmp_path: Path, rule, path: str, text: str):
    plant(tmp_path, path, text)
    fired = {each.__name__: each(tmp_path) for each in rules.RULES}
    assert [name for name, found in fired.items() if found] == [rule.__name__]
    assert all(path in found for found in fired[rule.__name__])


@pytest.mark.parametrize("rule", rules.RULES)
def test_clean_text_is_left_alone(tmp_path: Path, rule):
    for path, text in ALLOWED.items():
        plant(tmp_path, path, text)
    assert rule(tmp_path) == []


def test_every_rule_has_a_planted_fault():
    assert {rule for rule, _, _ in PLANTED} == set(rules.RULES)
