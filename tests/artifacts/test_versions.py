"""Published versions: served whole, swapped at once, rolled back; who dies or comes late harms nothing."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from takeup.artifacts.versions import Versions
from takeup.core.errors import NotFound

CHILD = """
import os, sys
from pathlib import Path
from takeup.testing import crash
from tests.artifacts.test_versions import publish

crash.arm_from_environment(os.environ)
publish(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
"""
POINTS = ["manifest.before rename", "versions.before place", "versions.after place", "versions.after swap"]


def make(root: Path, word: str) -> Path:
    folder = root / f"made-{word}"
    (folder / "low").mkdir(parents=True)
    (folder / "list").write_text("low/1\nlow/2\n")
    for number in ("1", "2"):
        (folder / "low" / number).write_text(f"{word} {number}")
    return folder


def publish(stream: Path, made: Path, origin: str, keep: int = 2) -> int:
    def entries(folder: str) -> dict[str, bytes]:
        lines = (made / "list").read_text().split()
        return {"list": "\n".join(f"{folder}/{line}" for line in lines).encode()}

    return Versions(stream).publish(made, origin, entries, keep=keep)


def seen(stream: Path) -> list[str]:
    """What somebody reads who enters now and follows every address."""
    return [(stream / line).read_text() for line in (stream / "list").read_text().split()]


def test_the_newest_is_served_and_the_one_before_can_be_again(tmp_path: Path):
    stream = tmp_path / "stream"
    assert publish(stream, make(tmp_path, "one"), "job 1") == 1
    assert publish(stream, make(tmp_path, "two"), "job 2") == 2
    assert seen(stream) == ["two 1", "two 2"]
    assert Versions(stream).roll_back() == 1
    assert seen(stream) == ["one 1", "one 2"]
    assert Versions(stream).roll_back(2) == 2
    assert seen(stream) == ["two 1", "two 2"]


def test_links_of_somebody_else_stay(tmp_path: Path):
    stream = tmp_path / "stream"
    publish(stream, make(tmp_path, "one"), "job 1")
    (stream / "mine").symlink_to(tmp_path)
    (stream / "gone").symlink_to("current/entry/gone")
    publish(stream, make(tmp_path, "two"), "job 2")
    assert (stream / "mine").readlink() == tmp_path
    assert not (stream / "gone").is_symlink()


def test_who_is_in_stays_in_the_version_he_entered(tmp_path: Path):
    stream = tmp_path / "stream"
    publish(stream, make(tmp_path, "one"), "job 1")
    entered = (stream / "list").read_text().split()
    publish(stream, make(tmp_path, "two"), "job 2")
    assert [(stream / line).read_text() for line in entered] == ["one 1", "one 2"]


def test_the_same_is_published_once_and_not_served_again_after_a_roll_back(tmp_path: Path):
    stream = tmp_path / "stream"
    publish(stream, make(tmp_path, "one"), "job 1")
    two = make(tmp_path, "two")
    assert [publish(stream, two, "job 2"), publish(stream, two, "job 2")] == [2, 2]
    Versions(stream).roll_back()
    assert publish(stream, two, "job 2") == 2
    assert Versions(stream).current() == 1


def test_only_so_many_earlier_versions_are_kept(tmp_path: Path):
    stream = tmp_path / "stream"
    for number in range(1, 6):
        publish(stream, make(tmp_path, str(number)), f"job {number}", keep=2)
    assert Versions(stream).numbers() == [3, 4, 5]
    assert sorted(p.name for p in stream.iterdir()) == [
        ".former",
        ".lock",
        "current",
        "list",
        "v3",
        "v4",
        "v5",
    ]


def test_what_was_served_after_a_roll_back_stays_and_is_what_comes_back(tmp_path: Path):
    stream = tmp_path / "stream"
    for number, word in enumerate(("one", "two", "three"), 1):
        publish(stream, make(tmp_path, word), f"job {number}")
    assert Versions(stream).roll_back(1) == 1
    assert publish(stream, make(tmp_path, "four"), "job 4", keep=1) == 4
    assert Versions(stream).numbers() == [1, 3, 4]
    assert Versions(stream).roll_back() == 1
    assert seen(stream) == ["one 1", "one 2"]


def test_what_cannot_be_rolled_back_says_so(tmp_path: Path):
    with pytest.raises(NotFound, match="there is no folder"):
        Versions(tmp_path / "nothing").roll_back()
    stream = tmp_path / "stream"
    publish(stream, make(tmp_path, "one"), "job 1")
    with pytest.raises(NotFound, match="no earlier version; there are: v1"):
        Versions(stream).roll_back()
    with pytest.raises(NotFound, match="no version v7"):
        Versions(stream).roll_back(7)


def test_a_disk_without_hard_links_gets_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    stream = tmp_path / "stream"
    publish(stream, make(tmp_path, "one"), "job 1")
    assert seen(stream) == ["one 1", "one 2"]


@pytest.mark.parametrize("has_old", [False, True], ids=["first", "second"])
@pytest.mark.parametrize("name", POINTS)
def test_killed_while_publishing_the_old_or_the_new_is_served_whole(
    tmp_path: Path, name: str, *, has_old: bool
):
    stream = tmp_path / "stream"
    if has_old:
        publish(stream, make(tmp_path, "old"), "job 0")
    made = make(tmp_path, "new")
    died = subprocess.run(
        [sys.executable, "-c", CHILD, str(stream), str(made), "job 1"],
        env={**os.environ, "TAKEUP_CRASH": name},
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert died.returncode == -signal.SIGKILL
    if has_old:
        assert seen(stream) in (["old 1", "old 2"], ["new 1", "new 2"])
    number = publish(stream, made, "job 1")
    assert (number, Versions(stream).current()) == (1 + has_old, 1 + has_old)
    assert seen(stream) == ["new 1", "new 2"]
    assert not [p.name for p in stream.iterdir() if p.name.startswith((".new", ".old", ".swap"))]


def test_a_reader_sees_whole_versions_all_through(tmp_path: Path):
    stream = tmp_path / "stream"
    publish(stream, make(tmp_path, "0"), "job 0")
    made = [make(tmp_path, str(n)) for n in range(1, 30)]
    is_over = threading.Event()

    def write() -> None:
        for number, one in enumerate(made, 1):
            publish(stream, one, f"job {number}", keep=100)
            if number % 5 == 0:
                Versions(stream).roll_back()
        is_over.set()

    writer = threading.Thread(target=write)
    writer.start()
    kinds: set[str] = set()
    while not is_over.is_set():
        first, second = (text.split()[0] for text in seen(stream))
        assert first == second
        kinds.add(first)
    writer.join()
    assert len(kinds) > 2
