"""A manifest is read back as it was written; whatever else lies in its place is no manifest."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeup.artifacts import manifest as manifests
from takeup.artifacts.layout import MANIFEST
from takeup.artifacts.manifest import InvalidManifest, Manifest, listed, parse
from takeup.core.report import ARTIFACTS_MAX
from tests.artifacts.attempts import FIRST, KEY, RESULT

HASH = "0" * 64
MANIFEST_OF_TWO = Manifest(*FIRST, KEY, 2, RESULT, (listed(KEY, "a", HASH, 1), listed(KEY, "b/é", HASH, 0)))
FILE = {"name": "a", "sha256": HASH, "size_bytes": 1}


def test_it_is_read_back_as_it_was_written(tmp_path: Path):
    assert parse(MANIFEST_OF_TWO.to_json()) == MANIFEST_OF_TWO
    manifests.write(tmp_path, MANIFEST_OF_TWO)
    assert manifests.read(tmp_path) == MANIFEST_OF_TWO
    assert [path.name for path in tmp_path.iterdir()] == [MANIFEST]


def test_the_files_carry_the_place_of_their_task():
    assert [file.key for file in MANIFEST_OF_TWO.files] == [f"{KEY}/a", f"{KEY}/b/é"]


def test_it_is_no_manifest_when_torn_anywhere(tmp_path: Path):
    data = MANIFEST_OF_TWO.to_json().encode()
    for length in range(len(data.rstrip())):
        (tmp_path / MANIFEST).write_bytes(data[:length])
        assert manifests.read(tmp_path) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = ["format", "task_id", "epoch", "nonce_hash", "key", "version", "result", "files"]


@given(st.sampled_from(FIELDS), JSON)
def test_a_hostile_field_raises_nothing_but_its_own_error(field: str, value: object):
    document = json.loads(MANIFEST_OF_TWO.to_json()) | {field: value}
    try:
        assert parse(json.dumps(document)).key == KEY
    except InvalidManifest:
        return


@given(st.sampled_from(sorted(FILE)), JSON)
def test_a_hostile_file_raises_nothing_but_its_own_error(field: str, value: object):
    document = json.loads(MANIFEST_OF_TWO.to_json()) | {"files": [FILE | {field: value}]}
    try:
        parse(json.dumps(document))
    except InvalidManifest:
        return


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"format": True},
        {"task_id": "5"},
        {"task_id": -5},
        {"nonce_hash": "../x"},
        {"key": "../" + KEY},
        {"result": []},
        {"result": {"x": float("nan")}},
        {"files": [FILE | {"name": "../x"}]},
        {"files": [FILE | {"name": "/etc/passwd"}]},
        {"files": [FILE | {"name": MANIFEST}]},
        {"files": [FILE | {"name": ["a"]}]},
        {"files": [FILE | {"sha256": "x"}]},
        {"files": [FILE | {"size_bytes": -1}]},
        {"files": [FILE | {"size_bytes": 1.0}]},
        {"files": [FILE, FILE]},
        {"files": [FILE | {"name": str(n)} for n in range(ARTIFACTS_MAX + 1)]},
        {"files": {"a": FILE}},
    ],
    ids=lambda change: str(change)[:40],
)
def test_what_cannot_be_true_is_refused(change):
    with pytest.raises(InvalidManifest, match="the manifest cannot be used"):
        parse(json.dumps(json.loads(MANIFEST_OF_TWO.to_json()) | change))


@pytest.mark.parametrize("data", [b"", b"null", b"[" * 200_000, b"\xff\xfe", b"1" * 10_000, b"{}", b'"x"'])
def test_a_reader_sees_no_manifest_in_junk(tmp_path: Path, data: bytes):
    (tmp_path / MANIFEST).write_bytes(data)
    assert manifests.read(tmp_path) is None


def test_a_reader_takes_no_manifest_of_another_kind(tmp_path: Path):
    place = tmp_path / "folder"
    place.mkdir()
    manifests.write(tmp_path, MANIFEST_OF_TWO)
    assert manifests.read(place) is None
    (place / MANIFEST).symlink_to(tmp_path / MANIFEST)
    assert manifests.read(place) is None
    (place / MANIFEST).unlink()
    os.mkfifo(place / MANIFEST)
    assert manifests.read(place) is None
    (place / MANIFEST).unlink()
    (place / MANIFEST).mkdir()
    assert manifests.read(place) is None


def test_a_reader_stops_at_a_huge_one(tmp_path: Path):
    with (tmp_path / MANIFEST).open("wb") as file:
        file.truncate(2**40)
    assert manifests.read(tmp_path) is None
