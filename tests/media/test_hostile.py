"""Hostile and broken sources as jobs: refused in one line at the first try, nothing followed, nothing left.

The names of the tests are those of the rows S72 to S95 of the list of attacks.
"""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from takeup.media.errors import MediaError
from takeup.media.source import look_at
from takeup.media.survey import survey
from takeup.media.tools import Tools
from tests.media import hostile
from tests.media.conftest import Make
from tests.media.jobs import Done, run_jobs

WORDS = {
    "s72 playlist to a network": "it is no media file",
    "s73 playlist to a file": "it is no media file",
    "s73 playlist with a key": "it is no media file",
    "s73 playlist with a start": "it is no media file",
    "s72 playlist by its own name": "of the kind hls",
    "s74 script, absolute": "of the kind concat",
    "s74 script, relative": "of the kind concat",
    "s75 presentation": "it is no media file",
    "s75 presentation by its own name": "the source cannot be",
    "s75 session": "of the kind sdp",
    "s75 asx": "it is no media file",
    "s75 pls": "is not taken",
    "s75 screen of text": "it is no media file",
    "s75 screen by its own name": "of the kind tty",
    "s75 graph": "it is no media file",
    "s75 xbin": "of the kind xbin",
    "s75 list of pictures": "it is no media file",
    "s75 picture of many": "of the kind image2",
    "s75 name of a name": "it is no media file",
    "s76 subtitle that is a playlist": "",
    "s77 frames elsewhere": "its picture track has no frames",
    "s78 unlisted decoder": "its codec magicyuv is not one that is decoded here",
    "s79 huge picture": "more than 67108864 pixels",
    "s79 thin picture": "its picture is shown as 65000×16",
    "s80 1000 a second": "1000 frames a second",
    "s80 a million seconds": "it lasts",
    "s80 too many frames": "frames a second",
    "s80 frames far apart": "its frames span 9000000",
    "s81 1000 streams": "more than 128 streams",
    "words": "it is no media file",
    "page": "it is no media file",
    "zeros": "it is no media file",
    "cut before its index": "its end was cut off",
    "empty": "is empty",
    "folder": "is not a regular file",
}


@pytest.fixture(scope="module")
def listener() -> Iterator[socket.socket]:
    """Somebody who would hear of a packet."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.01)
        yield server


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture(scope="module")
def sources(tools: Tools, make: Make, listener: socket.socket, folder: Path) -> dict[str, Path]:
    secret = folder / "secret.ts"
    secret.write_text(hostile.CANARY)
    texts = hostile.scripts(secret, listener.getsockname()[1])
    own_names = {
        "s72 playlist by its own name": ("m3u8", texts["s72 playlist to a network"]),
        "s75 presentation by its own name": ("mpd", texts["s75 presentation"]),
        "s75 screen by its own name": ("ans", texts["s75 screen of text"]),
        "s75 picture of many": ("jpg", "no picture"),
    }
    plain, short = make("plain").read_bytes(), make("one frame").read_bytes()
    elsewhere = {**hostile.elsewhere(make("plain")), "mdat": lambda body: bytes(len(body))}
    data = {
        **{name: text.encode("latin-1") for name, text in texts.items()},
        "s76 subtitle that is a playlist": hostile.talking_avi(texts["s72 playlist to a network"]),
        "s77 frames elsewhere": hostile.changed(plain, elsewhere),
        "s80 a million seconds": hostile.changed(short, hostile.many_frames(100, 125_000_000)) + bytes(100),
        "s80 too many frames": hostile.changed(short, hostile.many_frames(300_000, 10)) + bytes(300_000),
        "zeros": bytes(50_000),
        "cut before its index": plain[: len(plain) // 2],
        "empty": b"",
    }
    found = {}
    for number, name in enumerate(WORDS):
        ending, text = own_names.get(name, ("mp4", None))
        file = folder / f"{number}.{ending}"
        if name.partition(" ")[2] in hostile.RECIPES:
            file = hostile.make_source(tools, folder, name.partition(" ")[2])
        elif name == "folder":
            file.mkdir()
        else:
            file.write_bytes(data[name] if text is None else text.encode("latin-1"))
        found[name] = file
    return found


@pytest.fixture(scope="module")
def done(sources: dict[str, Path], folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    before = sorted(folder.rglob("*"))
    data = tmp_path_factory.mktemp("jobs") / "data"
    ended = asyncio.run(run_jobs(data, list(sources.values())))
    assert sorted(folder.rglob("*")) == before, "no file outside of the folder of the jobs"
    assert not list(data.parent.rglob("*.m3u8")), "no stream"
    canary = hostile.CANARY.encode()
    assert not any(canary in file.read_bytes() for file in data.rglob("*") if file.is_file())
    return dict(zip(sources, ended, strict=True))


@pytest.mark.parametrize("name", WORDS)
def test_source(done: dict[str, Done], name: str):
    assert done[name].job.status == "failed"
    (task,) = [task for task in done[name].tasks.values() if task.status == "FAILED"]
    assert task.attempt == 1, "what cannot get better is not tried again"
    assert task.error
    assert WORDS[name] in task.error
    assert task.error.isprintable()
    assert "Error" not in task.error.partition(":")[0], "it is told by us, not by an exception of Python"


@pytest.mark.parametrize("name", hostile.MAGIC)
async def test_chance_behind_the_first_bytes_of_a_format(tools: Tools, tmp_path: Path, name: str):
    file = tmp_path / "movie.mp4"
    file.write_bytes(hostile.garbled(name))
    with pytest.raises(MediaError) as told:
        await survey(tools, look_at(file))
    assert str(told.value).isprintable()
    assert not told.value.retryable


def test_s72_nobody_was_called(done: dict[str, Done], listener: socket.socket):
    assert done
    with pytest.raises(TimeoutError):
        listener.accept()
