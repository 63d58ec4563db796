"""Names: what is made can be read back, and no name leads anywhere else."""

from pathlib import PurePosixPath

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from takeup.artifacts.layout import (
    MANIFEST,
    MANIFEST_NEW,
    NAME_CHARS_MAX,
    PART_BYTES_MAX,
    TaskFolder,
    check_key,
    check_name,
    output_key,
    split_key,
)
from takeup.core.errors import InvalidInput
from takeup.core.ids import nonce_hash
from tests.artifacts.attempts import FIRST, KEY

NUMBERS = st.integers(0, 2**63 - 1)
PLAIN = st.from_regex(r"[a-z][a-z0-9_.-]{0,62}", fullmatch=True)
FOLDERS = st.builds(TaskFolder, NUMBERS, NUMBERS, st.text("0123456789abcdef", min_size=32, max_size=32))
LIKELY_NAMES = st.text("ab.~ /\\é\x00\n\ud800", max_size=20) | st.text(max_size=40)


@given(FOLDERS)
def test_a_folder_is_read_back_from_its_name(folder: TaskFolder):
    assert TaskFolder.parse(folder.name) == folder == folder.check()


@given(st.text("0123456789.abcdef-+_ \n\u0665", max_size=60) | FOLDERS.map(lambda folder: folder.name + "\n"))
@example(f"05.1.{'a' * 32}")
@example(f"5.1.{'A' * 32}")
@example(f"5.1.{'a' * 31}")
@example(f"5.1.{'a' * 32}/")
@example(f"{'9' * 5000}.1.{'a' * 32}")
@example("")
def test_any_other_name_is_nobodys(name: str):
    folder = TaskFolder.parse(name)
    assert folder is None or folder.name == name


def test_the_hash_of_a_nonce_names_a_folder():
    assert TaskFolder(1, 1, nonce_hash("secret")).check()


@pytest.mark.parametrize("hash_", ["", "../../etc", "a" * 33, "A" * 32])
def test_a_folder_that_is_no_plain_name_is_refused(hash_: str):
    with pytest.raises(InvalidInput, match="does not name the folder"):
        TaskFolder(1, 1, hash_).check()


def test_the_place_of_outputs_is_decided_by_the_task():
    assert output_key("watch", "job_1", 3, "encode", 2, 7) == "watch/job_1/g3/encode.v2/000007"
    assert output_key("watch", "job_1", 3, "encode", 2, None) == "watch/job_1/g3/encode.v2/whole"
    assert output_key("watch", "job_1", 3, "encode", 2, 1234567) == "watch/job_1/g3/encode.v2/1234567"


TASKS = st.tuples(PLAIN, st.just("job_ab12"), NUMBERS, PLAIN, NUMBERS, st.none() | NUMBERS)


@given(TASKS, TASKS)
def test_two_tasks_never_share_a_place(one, other):
    assume(one != other)
    assert output_key(*one) != output_key(*other)


@given(TASKS, st.sampled_from(["a", "a/b.ts", "é", "x/" + MANIFEST]))
def test_the_key_of_a_file_is_split_again(task, name: str):
    key = output_key(*task)
    assert split_key(f"{key}/{name}") == (key, name)


@pytest.mark.parametrize(
    "task",
    [
        ("../up", "job", 1, "s", 1, None),
        ("p", "..", 1, "s", 1, None),
        ("p", "a/b", 1, "s", 1, None),
        ("p", "job", -1, "s", 1, None),
        ("p", "job", 1, "s/t", 1, None),
        ("p", "job", 1, "s", 1, -4),
        (".staging", "job", 1, "s", 1, None),
        ("p", "job\n", 1, "s", 1, None),
    ],
)
def test_a_place_outside_of_the_layout_is_refused(task):
    with pytest.raises(InvalidInput, match="is not the key"):
        output_key(*task)


@pytest.mark.parametrize("key", ["", "a", KEY, "/" + KEY, f"{KEY}/", f"{KEY}/../x", f"{KEY}/{MANIFEST}"])
def test_a_key_of_no_file_is_refused(key: str):
    with pytest.raises(InvalidInput):
        split_key(key)


@pytest.mark.parametrize(
    "name", ["a", "a/b/c.ts", "ünï/ 1.ts", "..a", "a..", ".hidden", "a/manifest.json", "a:b"]
)
def test_a_plain_relative_name_is_taken(name: str):
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/a",
        "a/",
        "a//b",
        ".",
        "..",
        "a/../b",
        "./a",
        "a\x00b",
        "a\\b",
        "a\nb",
        "\u202eb",
        "\udcffa",
        MANIFEST,
        MANIFEST_NEW,
        "é" * 128,
        "a/" * 256 + "a",
    ],
)
def test_any_other_name_is_refused_in_one_sentence(name: str):
    with pytest.raises(InvalidInput, match=r"^output name '.*") as caught:
        check_name(name)
    assert str(caught.value).isprintable()


@given(LIKELY_NAMES)
def test_a_name_that_is_taken_stays_below_its_folder(name: str):
    try:
        check_name(name)
    except InvalidInput:
        return
    path = PurePosixPath("r") / name
    assert str(path) == f"r/{name}"
    assert not {"..", "."} & set(path.parts)
    assert name.isprintable()
    assert len(name) <= NAME_CHARS_MAX
    assert all(0 < len(part.encode()) <= PART_BYTES_MAX for part in name.split("/"))


def test_a_folder_is_no_key():
    with pytest.raises(InvalidInput):
        check_key(f".staging/{FIRST.name}")
