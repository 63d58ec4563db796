"""Archives of strangers: every row of the list is refused without a trace, and good ones come out whole."""

import gzip
import io
import os
import stat
import tarfile
import zlib
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from takeup.artifacts.archive import Limits
from takeup.core.errors import BadArchive, WrongChecksum
from tests.artifacts.tars import END, extract, extracting, header, member, opened, packed, padded, pax, sha256

GOOD = packed(member(b"master.m3u8", b"#EXTM3U"), member(b"720p/00001.m4s", b"m" * 1500))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "staging"
    made.mkdir()
    return made


def refused(folder: Path, data: bytes, match: str = ".", limits: Limits | None = None, **more: Any) -> None:
    with pytest.raises(BadArchive, match=match) as caught:
        extract(folder, data, limits, **more)
    assert (caught.value.http_status, caught.value.help) != (500, "")
    assert list(folder.rglob("*")) == [], "nothing of it stays"
    assert {path.name for path in folder.parent.iterdir()} == {folder.name}, "and nothing beside it"


@pytest.mark.parametrize("step", [1, 7, 511, 1 << 20])
def test_a_good_archive_comes_out_whole(folder: Path, step: int):
    found = extract(folder, GOOD, step=step, sha256=sha256(GOOD).upper(), size_bytes=len(GOOD))
    assert found == (("master.m3u8", 7), ("720p/00001.m4s", 1500))
    assert (folder / "master.m3u8").read_bytes() == b"#EXTM3U"
    assert (folder / "720p/00001.m4s").read_bytes() == b"m" * 1500


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_what_others_pack_is_read(folder: Path, form: int):
    long = f"{'d' * 90}/{'e' * 90}/{'f' * 90}.ts"
    names = ["a.ts", "b/c.m4s", *([] if form == tarfile.USTAR_FORMAT else [long])]
    packing = io.BytesIO()
    with tarfile.open(fileobj=packing, mode="w:gz", format=form) as tar:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = 1000, 1_700_000_000.5 if form == tarfile.PAX_FORMAT else 1_700_000_000
            tar.addfile(info, io.BytesIO(name[0].encode() * 1000))
    assert [one.name for one in extract(folder, packing.getvalue())] == names
    assert all((folder / name).read_bytes() == name[0].encode() * 1000 for name in names)


@pytest.mark.parametrize(
    "name",
    [
        b"../x.ts",
        b"a/../../x.ts",
        b"/abs.ts",
        b"//x.ts",
        b"a//b.ts",
        b"a.ts/",
        b"./a.ts",
        b"a/./b.ts",
        b"",
        b"..",
        b"a/..",
        b"a\\b.ts",
        b"C:\\x.ts",
        b"-y.ts",
        b".ts",
        b".hidden.ts",
        b"a\nb.ts",
        b"a b.ts",
        b"\xff.ts",
        b"a\x1bb.ts",
        "\N{RIGHT-TO-LEFT OVERRIDE}st.ts".encode(),
        b"%03d.ts",
        b"http:x.ts",
        b"a./b.ts",
        b"x" * 99,
    ],
)
def test_s53_names_that_lead_elsewhere(folder: Path, name: bytes):
    refused(folder, packed(member(b"ok.ts"), member(name)))
    refused(folder, packed(pax(path=name), member(b"innocent.ts")))


@pytest.mark.parametrize("kind", [b"1", b"2"])
@pytest.mark.parametrize("target", [b"/etc/passwd", b"../x", b"a.ts", b""])
def test_s54_s55_links_are_refused(folder: Path, kind: bytes, target: bytes):
    refused(folder, packed(member(b"a.ts"), header(b"b.ts", 0, kind, link=target)), "link")
    refused(folder, packed(pax(linkpath=target or b"x"), member(b"a.ts")), "links")
    refused(folder, packed(member(b"a.ts", link=target or b"x")), "another file")


@pytest.mark.parametrize("kind", [b"3", b"4", b"5", b"6", b"7", b"g", b"K", b"V", b"M", b"A", b"\xff"])
def test_s56_nothing_but_plain_files(folder: Path, kind: bytes):
    refused(folder, packed(member(b"a.ts"), member(b"b.ts", b"", kind)), "plain files")


@pytest.mark.parametrize(
    "size",
    [
        b"-0000000001\0",
        b"\xff" * 12,
        b"\x80" + b"\xff" * 11,
        b"\0" * 12,
        b"9" * 11,
        b"0x10",
        b" " * 12,
        b"1 1",
    ],
)
def test_s57_sizes_that_make_no_sense(folder: Path, size: bytes):
    refused(folder, packed(header(b"a.ts", size) + padded(b"x")), "size|number")


def test_s57_the_whole_has_a_time(folder: Path):
    ticks = count()
    refused(folder, packed(member()), "longer than 2 s", Limits(wall_s=2), clock=lambda: next(ticks), step=10)


def test_s58_rights_and_times_are_ours(folder: Path):
    odd = [
        member(b"a.ts", mode=0o7777),
        member(b"b/b.ts", mode=0),
        member(b"c.ts", mtime=b"77777777777\0"),
        member(b"d.ts", mtime=b"\xff" * 12),
    ]
    before = os.umask(0o077)
    try:
        extract(folder, packed(*odd))
    finally:
        os.umask(before)
    for name in ("a.ts", "b/b.ts", "c.ts", "d.ts"):
        status = (folder / name).stat()
        assert (stat.S_IMODE(status.st_mode), status.st_uid) == (0o644, os.geteuid())
        assert abs(status.st_mtime - folder.stat().st_mtime) < 60


def test_s59_what_is_said_before_a_file_counts(folder: Path):
    content = b"y" * 600
    found = extract(folder, packed(pax(path="b.ts", size="600"), header(b"../evil.ts", 0) + padded(content)))
    assert found == (("b.ts", 600),)
    assert (folder / "b.ts").read_bytes() == content


def test_s59_a_long_name_is_checked_too(folder: Path):
    refused(folder, packed(member(b"././@LongLink", b"../../x.ts\0", b"L"), member(b"a.ts")), "name")
    refused(folder, packed(member(b"././@LongLink", b"a.ts", b"L"), member(b"a.ts")), "long name")
    refused(folder, packed(member(b"././@LongLink", b"a.ts\0b.ts\0", b"L"), member(b"a.ts")), "long name")


@pytest.mark.parametrize(
    "said",
    [
        pax(size="-1"),
        pax(size="1" * 19),
        pax(size="1e3"),
        pax(GNU__sparse__major="1"),
        pax(hdrcharset="BINARY"),
        member(b"x", b"garbage", b"x"),
        member(b"x", b"99 path=a\n", b"x"),
        member(b"x", b"", b"x"),
        member(b"x", b"9 path=a\n9 path=b\n", b"x"),
        pax(path="a.ts") + pax(path="b.ts"),
        member(b"x", b"1" * 8193, b"x"),
        header(b"x", 0, b"S"),
    ],
)
def test_s59_what_cannot_be_said(folder: Path, said: bytes):
    refused(folder, packed(said, member(b"a.ts")))


@pytest.mark.parametrize(
    "names",
    [
        ("a.ts", "a.ts"),
        ("a.ts", "A.ts"),
        ("d/a.ts", "D/b.ts"),
        ("x.ts", "x.ts/y.ts"),
        ("X.ts", "x.ts/y.ts"),
        ("x.ts/y.ts", "x.ts"),
        ("d/e/a.ts", "d/E/b.ts"),
        ("\u00e9.ts", "e\u0301.ts"),
        ("stra\u00dfe.ts", "strasse.ts"),
    ],
)
def test_s60_no_name_stands_for_two(folder: Path, names: tuple[str, str]):
    refused(folder, packed(*(member(name.encode()) for name in names)))


def test_s61_files_are_counted(folder: Path):
    members = [member(b"%d.ts" % number, b"") for number in range(12)]
    assert len(extract(folder, packed(*members[:10]), Limits(files=10))) == 10
    for path in folder.iterdir():
        path.unlink()
    refused(folder, packed(*members), "more than 10 files", Limits(files=10))


def test_s62_a_little_must_not_become_a_lot(folder: Path):
    bomb = packed(member(b"a.ts", bytes(20_000_000)))
    assert len(bomb) * 200 < 20_000_000
    refused(folder, bomb, "200 times")
    refused(folder, bomb, "20 times", Limits(ratio=20, unjudged_bytes=1000))
    assert extract(folder, packed(member(b"a.ts", bytes(9_000_000)))), "little is not judged"


def test_s62_no_more_than_was_declared(folder: Path):
    refused(folder, GOOD, "more than", size_bytes=len(GOOD) - 1)
    refused(folder, GOOD, "more than 100 bytes", Limits(packed_bytes=100))
    with pytest.raises(WrongChecksum):
        extract(folder, GOOD, size_bytes=len(GOOD) + 1)


def test_s63_sizes_are_bounded(folder: Path):
    two = packed(member(b"a.ts", b"x" * 600), member(b"b.ts", b"x" * 600))
    refused(folder, two, "more than 500 bytes", Limits(file_bytes=500))
    refused(folder, two, "1000 bytes together", Limits(all_bytes=1000))
    refused(folder, packed(header(b"a.ts", 8**11 - 1)), "more than")


@pytest.mark.parametrize(
    "data",
    [
        GOOD[:-1],
        GOOD[:-8],
        GOOD[:20],
        b"",
        GOOD + b"x",
        GOOD + GOOD,
        GOOD + bytes(10),
        b"not gzip at all",
        b"\x28\xb5\x2f\xfd" + GOOD,
        GOOD[:-8] + bytes(4) + GOOD[-4:],
        GOOD[:-4] + bytes(4),
        zlib.compress(b"x" * 600),
        gzip.compress(b"", mtime=0),
        gzip.compress(END, mtime=0),
        packed(member(), end=b""),
        packed(member(), end=bytes(512)),
        packed(header(b"a.ts", 600), end=b""),
        packed(member(), end=END + b"x"),
        packed(member(), end=END + member()),
        packed(member(), end=bytes(512) + member() + END),
        packed(member(), end=END + bytes(2 << 20)),
        packed(pax(path="a.ts")),
        packed(header(checksum=1)),
        packed(header(magic=bytes(8))),
        packed(b"x" * 512),
        gzip.compress(packed(member()), mtime=0),
    ],
)
@pytest.mark.parametrize("step", [3, 1 << 20])
def test_s64_what_is_not_one_whole_archive(folder: Path, data: bytes, step: int):
    refused(folder, data, step=step)


@pytest.mark.parametrize(
    "name", [b"a.sh", b"a.html", b"a.ts.exe", b"a", b"ts", b"a.TS", b"a.svg", b"a.json", b"a."]
)
def test_s65_other_kinds(folder: Path, name: bytes):
    refused(folder, packed(member(name)))
    extract(folder, packed(member(b"a.json")), Limits(endings=frozenset({".json"})))


def test_depth(folder: Path):
    refused(folder, packed(member(b"a/b/c/d.ts")), "name")
    assert extract(folder, packed(member(b"a/b/c.ts")))


def test_s70_another_archive_than_was_declared(folder: Path):
    with pytest.raises(WrongChecksum) as caught:
        extract(folder, GOOD, sha256="0" * 64)
    assert (caught.value.code, caught.value.http_status) == ("checksum", 422)
    assert list(folder.iterdir()) == []
    refused(folder, GOOD, sha256="\N{SNOWMAN}")


def test_what_is_there_already_is_neither_followed_nor_replaced(folder: Path, tmp_path: Path):
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    (folder / "720p").symlink_to(outside)
    (folder / "a.ts").symlink_to(outside / "a.ts")
    for data in (GOOD, packed(member(b"a.ts"))):
        with pytest.raises(BadArchive, match="there already"):
            extract(folder, data)
    assert list(outside.iterdir()) == []
    assert {path.name for path in folder.iterdir()} == {"720p", "a.ts"}, "what was there stays"


def test_what_is_left_alone_is_taken_back(folder: Path):
    with opened(folder) as root:
        with extracting(root) as extraction:
            extraction.feed(packed(member(b"a/b.ts", b"x" * 5000))[:-9])
            assert (folder / "a/b.ts").exists()
        assert list(folder.iterdir()) == []
        with pytest.raises(BadArchive, match="over already"):
            extraction.feed(b"x")


def flipped(data: bytes, places: list[tuple[int, int]]) -> bytes:
    changed = bytearray(data)
    for place, value in places:
        changed[place % len(changed)] = value
    return bytes(changed)


def mended(data: bytes) -> bytes:
    """With checksums that are right, so that more than those is tried."""
    changed = bytearray(data)
    for start in (0, 1024, 2048):
        block = changed[start : start + 512]
        if len(block) == 512:
            changed[start + 148 : start + 156] = b"%06o\0 " % (sum(block[:148]) + 256 + sum(block[156:]))
    return bytes(changed)


TAR = b"".join([pax(path="b/c.ts"), member(b"x.ts"), member(b"d.m4s", b"y" * 700), END])
PLACES = st.lists(st.tuples(st.integers(0, len(TAR) - 1), st.integers(0, 255)), max_size=6)


@settings(max_examples=150, deadline=2000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(places=PLACES, cut=st.integers(0, len(TAR)), raw=st.binary(max_size=40), step=st.integers(1, 4000))
@example(places=[], cut=len(TAR), raw=b"", step=4000)
def test_no_input_escapes_hangs_or_breaks(
    tmp_path: Path, places: list[tuple[int, int]], cut: int, raw: bytes, step: int
):
    folder = tmp_path / "staging"
    folder.mkdir(exist_ok=True)
    for data in (
        gzip.compress(flipped(TAR, places)[:cut] + raw, 1, mtime=0),
        flipped(gzip.compress(TAR, 1, mtime=0), places) + raw,
    ):
        try:
            found = extract(folder, data, Limits(wall_s=5, all_bytes=1 << 20), step=step)
        except BadArchive:
            found = ()
        there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
        assert there == {one.name for one in found}
        assert list(tmp_path.iterdir()) == [folder]
        for path in sorted(folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
