"""Outputs on a real disk: sealed, published by the winner alone, and found again by the next attempt."""

import hashlib
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath

import pytest

from takeup.artifacts.layout import MANIFEST, TaskFolder
from takeup.artifacts.local import LocalArtifacts
from takeup.core.errors import Conflict, InvalidInput, InvalidResult, NotFound
from takeup.core.report import check_artifacts
from tests.artifacts.attempts import (
    FILES,
    FIRST,
    KEY,
    RESULT,
    SECOND,
    THIRD,
    published,
    sealed,
    tree,
    write_outputs,
)


def test_a_seal_lists_each_file_with_its_size_and_hash(artifacts: LocalArtifacts):
    manifest = sealed(artifacts)
    assert [(f.name, f.key, f.size_bytes, f.sha256) for f in manifest.files] == [
        (name, f"{KEY}/{name}", len(FILES[name]), hashlib.sha256(FILES[name]).hexdigest())
        for name in sorted(FILES)
    ]
    check_artifacts(manifest.files)
    assert (manifest.folder, manifest.key, manifest.version, manifest.result) == (FIRST, KEY, 2, RESULT)
    assert artifacts.seal(FIRST, KEY, 2, RESULT) == manifest


def test_a_file_of_several_blocks_is_hashed_whole(artifacts: LocalArtifacts):
    content = os.urandom(2**20 * 2 + 17)
    (artifacts.stage(FIRST) / "big").write_bytes(content)
    (file,) = artifacts.seal(FIRST, KEY, 1, {}).files
    assert (file.size_bytes, file.sha256) == (len(content), hashlib.sha256(content).hexdigest())


def test_a_task_without_outputs_is_sealed_and_published_too(artifacts: LocalArtifacts):
    artifacts.stage(FIRST)
    assert artifacts.seal(FIRST, KEY, 1, {"ok": True}).files == ()
    assert artifacts.publish(FIRST, KEY)
    assert artifacts.find(SECOND, KEY).result == {"ok": True}


def test_a_seal_after_another_write_lists_the_new_content(artifacts: LocalArtifacts):
    before = sealed(artifacts)
    (artifacts.staged_path(FIRST) / "video.mp4").write_bytes(b"new")
    after = artifacts.seal(FIRST, KEY, 2, RESULT)
    assert after != before
    assert artifacts.find(FIRST, KEY) == after


def make_symlink(path: Path) -> None:
    path.symlink_to(os.devnull)


def make_linked_folder(path: Path) -> None:
    path.symlink_to(path.parent.parent)


def make_hard_link(path: Path) -> None:
    outside = path.parents[2] / "secret"
    outside.write_bytes(b"secret")
    path.hardlink_to(outside)


def make_socket(path: Path) -> None:
    before = Path.cwd()
    os.chdir(path.parent)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name)
    os.chdir(before)


@pytest.mark.parametrize("make", [make_symlink, make_linked_folder, make_hard_link, os.mkfifo, make_socket])
def test_a_seal_refuses_what_is_not_a_file_of_its_own(artifacts: LocalArtifacts, make):
    write_outputs(artifacts.stage(FIRST))
    make(artifacts.staged_path(FIRST) / "odd")
    with pytest.raises(InvalidInput, match="'odd'"):
        artifacts.seal(FIRST, KEY, 2, RESULT)
    assert artifacts.find(SECOND, KEY) is None


@pytest.mark.parametrize("name", [b"a\\b", b"line\nbreak", b"\xff"])
def test_a_seal_refuses_a_bad_name(artifacts: LocalArtifacts, name: bytes):
    Path(os.fsdecode(os.fsencode(artifacts.stage(FIRST)) + b"/" + name)).write_bytes(b"x")
    with pytest.raises(InvalidInput, match="output name"):
        artifacts.seal(FIRST, KEY, 2, RESULT)


def test_a_seal_does_not_overwrite_a_stages_own_manifest(artifacts: LocalArtifacts):
    own = artifacts.stage(FIRST) / MANIFEST
    own.write_text("{}")
    with pytest.raises(InvalidInput, match=r"manifest\.json"):
        artifacts.seal(FIRST, KEY, 2, RESULT)
    assert own.read_text() == "{}"


def test_a_seal_refuses_too_much(artifacts: LocalArtifacts, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("takeup.artifacts.files.ENTRIES_MAX", 4)
    write_outputs(artifacts.stage(FIRST), {str(number): b"" for number in range(4)})
    artifacts.seal(FIRST, KEY, 2, {})
    (artifacts.staged_path(FIRST) / "one more").mkdir()
    with pytest.raises(InvalidInput, match="more than 4"):
        artifacts.seal(FIRST, KEY, 2, {})


def test_a_seal_refuses_a_bad_result_and_a_missing_folder(artifacts: LocalArtifacts):
    with pytest.raises(NotFound, match="is gone"):
        artifacts.seal(FIRST, KEY, 2, RESULT)
    artifacts.stage(FIRST)
    with pytest.raises(InvalidResult):
        artifacts.seal(FIRST, KEY, 2, [1])  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        artifacts.seal(FIRST, "../" + KEY, 2, RESULT)


def test_nothing_is_public_before_it_is_published(artifacts: LocalArtifacts):
    sealed(artifacts)
    assert [path.name for path in artifacts.root.iterdir()] == [".staging"]
    with pytest.raises(NotFound):
        artifacts.open_path(f"{KEY}/video.mp4")


def test_publishing_moves_the_whole_folder_and_can_be_repeated(artifacts: LocalArtifacts):
    manifest = sealed(artifacts)
    assert artifacts.publish(FIRST, KEY)
    assert artifacts.publish(FIRST, KEY)
    content = tree(artifacts.root / KEY)
    assert content.pop(MANIFEST)
    assert content == FILES
    assert artifacts.staged() == []
    assert artifacts.verify(manifest) == []
    assert artifacts.open_path(f"{KEY}/hls/high/1.ts").read_bytes() == b"ts"


def test_publishing_nothing_says_so(artifacts: LocalArtifacts):
    assert not artifacts.publish(FIRST, KEY)
    (artifacts.root / KEY).mkdir(parents=True)
    assert not artifacts.publish(FIRST, KEY)


def test_only_what_is_sealed_under_the_token_is_published(artifacts: LocalArtifacts):
    write_outputs(artifacts.stage(FIRST))
    with pytest.raises(Conflict, match="not sealed"):
        artifacts.publish(FIRST, KEY)
    sealed(artifacts)
    with pytest.raises(Conflict, match="not sealed"):
        artifacts.publish(FIRST, KEY.replace("g1", "g2"))
    artifacts.staged_path(FIRST).rename(artifacts.staged_path(SECOND))
    with pytest.raises(Conflict, match="not sealed"):
        artifacts.publish(SECOND, KEY)
    elsewhere = artifacts.root / "elsewhere"
    sealed(artifacts, THIRD)
    artifacts.staged_path(THIRD).rename(elsewhere)
    artifacts.staged_path(THIRD).symlink_to(elsewhere)
    with pytest.raises(Conflict, match="not sealed"):
        artifacts.publish(THIRD, KEY)
    assert not (artifacts.root / KEY).exists()


def test_what_is_published_stays_when_it_is_sound(artifacts: LocalArtifacts):
    manifest = published(artifacts)
    write_outputs(artifacts.stage(SECOND), {"other": b"content"})
    artifacts.seal(SECOND, KEY, 2, {})
    assert artifacts.publish(SECOND, KEY)
    assert artifacts.verify(manifest) == []
    assert (artifacts.staged(), artifacts.sweep_trash()) == ([], 0)


def test_what_is_published_and_damaged_is_replaced_by_what_is_sealed_only(artifacts: LocalArtifacts):
    published(artifacts)
    (artifacts.root / KEY / "video.mp4").write_bytes(b"x")
    artifacts.stage(SECOND)
    with pytest.raises(Conflict):
        artifacts.publish(SECOND, KEY)
    assert (artifacts.root / KEY / "video.mp4").read_bytes() == b"x"
    manifest = sealed(artifacts, SECOND)
    assert artifacts.publish(SECOND, KEY)
    assert artifacts.verify(manifest) == []
    assert (artifacts.staged(), artifacts.sweep_trash()) == ([], 0)


@pytest.mark.parametrize("damaged", [False, True])
def test_many_may_publish_the_same_at_once(tmp_path: Path, damaged: bool):  # noqa: FBT001
    for number in range(20):
        artifacts = LocalArtifacts(tmp_path / str(number))
        if damaged:
            published(artifacts)
            (artifacts.root / KEY / "video.mp4").unlink()
        manifest = sealed(artifacts, SECOND)
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda _: artifacts.publish(SECOND, KEY), range(4)))  # noqa: B023
        assert answers == [True] * 4
        assert artifacts.verify(manifest) == []


def test_every_file_and_name_is_made_to_last(artifacts: LocalArtifacts, monkeypatch: pytest.MonkeyPatch):
    write_outputs(artifacts.stage(FIRST))
    synced: list[str] = []
    fsync = os.fsync

    def record(fd: int) -> None:
        synced.append(os.path.relpath(Path(f"/proc/self/fd/{fd}").readlink(), artifacts.root))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", record)
    artifacts.seal(FIRST, KEY, 2, RESULT)
    own = f".staging/{FIRST.name}"
    made = [*FILES, "hls", "hls/low", "hls/high"]
    before, after = synced[: synced.index(f"{own}/manifest.json.new")], synced[-3:]
    assert set(before) == {own, *(f"{own}/{name}" for name in made)}
    assert after == [own, ".staging", "."]
    for _ in range(2):  # also when it is repeated after a crash
        synced.clear()
        artifacts.publish(FIRST, KEY)
        assert set(synced) == {".staging", *map(str, PurePosixPath(KEY).parents)}


def test_an_older_generation_is_untouched_by_a_newer_one(artifacts: LocalArtifacts):
    manifest = published(artifacts)
    newer = KEY.replace("/g1/", "/g2/")
    (artifacts.stage(SECOND) / "video.mp4").write_bytes(b"new")
    assert artifacts.find(SECOND, newer) is None
    artifacts.seal(SECOND, newer, 2, RESULT)
    assert artifacts.publish(SECOND, newer)
    assert artifacts.verify(manifest) == []
    assert artifacts.open_path(f"{KEY}/video.mp4").read_bytes() == FILES["video.mp4"]


def test_a_sealed_output_is_found_and_adopted_by_the_next_attempt(artifacts: LocalArtifacts):
    manifest = sealed(artifacts)
    write_outputs(artifacts.stage(SECOND), {"half": b"done"})
    assert artifacts.find(SECOND, KEY) == manifest
    adopted = artifacts.adopt(SECOND, manifest)
    assert adopted.folder == SECOND
    assert (adopted.files, adopted.result) == (manifest.files, manifest.result)
    assert artifacts.staged() == [SECOND]
    assert artifacts.find(SECOND, KEY) == artifacts.adopt(SECOND, adopted) == adopted
    assert not artifacts.publish(FIRST, KEY)
    assert artifacts.publish(SECOND, KEY)
    assert artifacts.verify(adopted) == []


def test_a_published_output_is_found_first_and_stays_where_it_is(artifacts: LocalArtifacts):
    manifest = published(artifacts)
    sealed(artifacts, SECOND)
    assert artifacts.find(THIRD, KEY) == manifest
    assert artifacts.adopt(THIRD, manifest) == manifest
    assert artifacts.staged() == [SECOND]
    assert artifacts.verify(manifest) == []


def test_a_zombie_finds_and_takes_nothing_of_a_later_attempt(artifacts: LocalArtifacts):
    manifest = sealed(artifacts, SECOND)
    assert artifacts.find(FIRST, KEY) is None
    assert artifacts.find(TaskFolder(5, 2, "f" * 32), KEY) is None
    with pytest.raises(NotFound, match="are gone"):
        artifacts.adopt(FIRST, manifest)
    assert artifacts.publish(SECOND, KEY)


def test_the_output_of_another_task_or_key_is_not_found(artifacts: LocalArtifacts):
    sealed(artifacts)
    assert artifacts.find(TaskFolder(6, 9, "1" * 32), KEY) is None
    assert artifacts.find(SECOND, KEY.replace("encode.v2", "encode.v3")) is None


def test_an_output_that_another_took_meanwhile_cannot_be_adopted(artifacts: LocalArtifacts):
    manifest = sealed(artifacts)
    artifacts.adopt(SECOND, manifest)
    with pytest.raises(NotFound):
        artifacts.adopt(THIRD, manifest)
    assert artifacts.find(THIRD, KEY).folder == SECOND


def damage_content(path: Path) -> None:
    (path / "video.mp4").write_bytes(b"w" * 3000)


def damage_size(path: Path) -> None:
    (path / "video.mp4").write_bytes(b"")


def damage_missing(path: Path) -> None:
    (path / "hls/low/1.ts").unlink()


def damage_unlisted(path: Path) -> None:
    (path / "hls/extra.ts").touch()


def damage_linked(path: Path) -> None:
    (path / "hls").rename(path.parent.parent / "moved")
    (path / "hls").symlink_to(path.parent.parent / "moved")


def damage_fifo(path: Path) -> None:
    (path / "hls/low/1.ts").unlink()
    os.mkfifo(path / "hls/low/1.ts")


def damage_manifest(path: Path) -> None:
    os.truncate(path / MANIFEST, 100)


DAMAGES = [
    damage_content,
    damage_size,
    damage_missing,
    damage_unlisted,
    damage_linked,
    damage_fifo,
    damage_manifest,
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_output_is_never_found(artifacts: LocalArtifacts, damage):
    manifest = sealed(artifacts)
    damage(artifacts.staged_path(FIRST))
    assert artifacts.find(SECOND, KEY) is None
    intact = sealed(artifacts, SECOND)
    assert artifacts.find(THIRD, KEY) == intact != manifest


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_published_output_is_named(artifacts: LocalArtifacts, damage):
    manifest = published(artifacts)
    assert artifacts.verify(manifest) == []
    damage(artifacts.root / KEY)
    (problem,) = artifacts.verify(manifest)
    assert problem.startswith(KEY)
    assert artifacts.find(SECOND, KEY) is None


def test_verify_tells_a_manifest_of_another_token(artifacts: LocalArtifacts):
    manifest = published(artifacts)
    assert artifacts.verify(manifest.under(SECOND)) == [f"{KEY}: the published manifest is another one"]


@pytest.mark.parametrize(
    "key", ["", "../x", f"{KEY}/../../x", f"{KEY}/{MANIFEST}", f".staging/{FIRST.name}/a/b/c/d", f"/{KEY}/a"]
)
def test_a_key_that_leads_elsewhere_is_not_opened(artifacts: LocalArtifacts, key: str):
    published(artifacts)
    with pytest.raises(InvalidInput):
        artifacts.open_path(key)


def test_only_files_below_the_root_are_opened(artifacts: LocalArtifacts, tmp_path: Path):
    published(artifacts)
    (tmp_path / "secret").write_text("s")
    (artifacts.root / KEY / "link").symlink_to(tmp_path / "secret")
    for name in ("link", "hls", "nothing"):
        with pytest.raises(NotFound):
            artifacts.open_path(f"{KEY}/{name}")


def test_dropping_removes_one_attempt_alone(artifacts: LocalArtifacts):
    sealed(artifacts)
    sealed(artifacts, SECOND)
    artifacts.drop(FIRST)
    artifacts.drop(FIRST)
    artifacts.drop(THIRD)
    assert artifacts.staged() == [SECOND]
    assert [path.name for path in (artifacts.root / ".staging").iterdir()] == [SECOND.name]


def test_an_empty_root_has_nothing(artifacts: LocalArtifacts):
    assert (artifacts.staged(), artifacts.sweep_trash()) == ([], 0)
    assert artifacts.find(FIRST, KEY) is None
    artifacts.drop(FIRST)
