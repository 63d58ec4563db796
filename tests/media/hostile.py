"""Sources that mean harm or are broken, made when a test needs them, by hand where no tool would."""

import random
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

from takeup.media.tools import Tools
from tests.media.conftest import PICTURE

CANARY = "canary-of-the-test"
PLAYLIST = "#EXTM3U\n#EXT-X-TARGETDURATION:9\n{extra}#EXTINF:9,\n{target}\n#EXT-X-ENDLIST\n"
MPD = (
    '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" '
    'mediaPresentationDuration="PT9S"><Period><AdaptationSet mimeType="video/mp4">'
    '<Representation id="0" bandwidth="9">'
    "<BaseURL>{target}</BaseURL></Representation></AdaptationSet></Period></MPD>"
)
SDP = (
    "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\n"
    "m=video {port} RTP/AVP 96\na=rtpmap:96 H264/90000\n"
)


def scripts(secret: Path, port: int) -> dict[str, str]:
    """Files of text that name other files and addresses, by the row of the list of attacks."""
    address, file = f"http://127.0.0.1:{port}/x.ts", f"file://{secret}"
    key, start = f'#EXT-X-KEY:METHOD=AES-128,URI="{file}"\n', f'#EXT-X-MAP:URI="{file}"\n'
    return {
        "s72 playlist to a network": PLAYLIST.format(extra="", target=address),
        "s73 playlist to a file": PLAYLIST.format(extra="", target=file),
        "s73 playlist with a key": PLAYLIST.format(extra=key, target=address),
        "s73 playlist with a start": PLAYLIST.format(extra=start, target=address),
        "s74 script, absolute": f"ffconcat version 1.0\nfile '{secret}'\n",
        "s74 script, relative": f"ffconcat version 1.0\nfile '{secret.name}'\n",
        "s75 presentation": MPD.format(target=address),
        "s75 session": SDP.format(port=port),
        "s75 asx": f'<ASX version="3.0"><ENTRY><REF HREF="{address}"/></ENTRY></ASX>',
        "s75 pls": f"[playlist]\nFile1={address}\nNumberOfEntries=1\nVersion=2\n",
        "s75 screen of text": "\x1b[2J\x1b[31mhello\x1b[0m\n" * 50,
        "s75 graph": "testsrc2=size=320x180:duration=2",
        "s75 xbin": "XBIN\x1a\x50\x00\x19\x00\x10\x00" + "x\x07" * 2000,
        "s75 list of pictures": f"{secret}\n" * 20,
        "s75 name of a name": f"concat:{secret}|{secret}",
        "words": "just some words, and a few more of them",
        "page": "<html><body><script>alert(1)</script></body></html>",
    }


MAGIC = {
    "mp4": b"\x00\x00\x00\x20ftypisom\x00\x00\x02\x00isomiso2avc1mp41\x00\x00\x10\x00moov",
    "mkv": b"\x1aE\xdf\xa3\x9fB\x86\x81\x01B\xf7\x81\x01B\xf2\x81\x04B\xf3\x81\x08B\x82\x84webm",
    "avi": b"RIFF\xff\xff\x00\x00AVI LIST\xff\xff\x00\x00hdrl",
    "ogg": b"OggS\x00\x02" + bytes(8),
    "flv": b"FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00",
    "mp3": b"ID3\x04\x00\x00\x7f\x7f\x7f\x7f",
    "wav": b"RIFF\xff\xff\x00\x00WAVEfmt \x10\x00\x00\x00",
    "flac": b"fLaC\x80\xff\xff\xff",
    "asf": bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c"),
    "mxf": bytes.fromhex("060e2b34020501010d0102010102"),
    "ts": b"\x47\x40\x00\x10\x00",
    "mpeg": b"\x00\x00\x01\xba\x44",
    "h264": b"\x00\x00\x00\x01\x67\x42\x00\x1f",
    "gif": b"GIF89a\xff\xff\xff\xff\xf7",
    "ivf": b"DKIF\x00\x00\x20\x00AV01",
    "zip": b"PK\x03\x04",
    "elf": b"\x7fELF\x02\x01\x01",
    "pdf": b"%PDF-1.7\n",
    "png": b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
}


def garbled(name: str) -> bytes:
    """Bytes by chance behind the first ones of a real format; the same every time."""
    return MAGIC[name] + random.Random(name).randbytes(60_000)


def box(kind: str, *parts: bytes) -> bytes:
    """A box of MP4."""
    data = b"".join(parts)
    return struct.pack(">I4s", 8 + len(data), kind.encode("latin-1")) + data


Change = Callable[[bytes], bytes]
CONTAINERS = ("moov", "trak", "mdia", "minf", "dinf", "stbl")


def changed(data: bytes, changes: dict[str, Change]) -> bytes:
    """An MP4 with the contents of some boxes changed, the sizes of all around them, and no edit list."""
    out, at = [], 0
    while at + 8 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        name, body = kind.decode("latin-1"), data[at + 8 : at + size]
        if name == "edts":
            name = "free"
        elif name in changes:
            body = changes[name](body)
        elif name in CONTAINERS:
            body = changed(body, changes)
        out.append(box(name, body))
        at += size
    return b"".join(out)


def lasting(seconds: int) -> dict[str, Change]:
    """Changes that make a movie claim to last so long."""

    def longer(at: int, scale_at: int | None) -> Change:
        def change(body: bytes) -> bytes:
            scale = struct.unpack_from(">I", body, scale_at)[0] if scale_at is not None else 1000
            return body[:at] + struct.pack(">I", min(seconds * scale, 2**32 - 2)) + body[at + 4 :]

        return change

    return {"mvhd": longer(16, 12), "mdhd": longer(16, 12), "tkhd": longer(20, None)}


def many_frames(count: int, ticks: int) -> dict[str, Change]:
    """Changes that make a movie claim so many frames of one byte, each of so many ticks."""
    return {
        "stts": lambda _: struct.pack(">IIII", 0, 1, count, ticks),
        "stsz": lambda _: struct.pack(">III", 0, 1, count),
        "stsc": lambda _: struct.pack(">IIIII", 0, 1, 1, count, 1),
        "stco": lambda body: struct.pack(">II", 0, 1) + body[8:12],
        "ctts": lambda _: struct.pack(">IIII", 0, 1, count, 0),
        "stss": lambda _: struct.pack(">III", 0, 1, 1),
        "mdhd": lambda body: body[:16] + struct.pack(">I", min(count * ticks, 2**32 - 2)) + body[20:],
    }


def elsewhere(target: Path) -> dict[str, Change]:
    """Changes that make a movie say that its frames lie in another file."""
    path = str(target).encode()
    alias = (
        bytes(10) + b"\x04disk".ljust(28, b"\x00") + bytes(12) + bytes([len(target.name)])
        + target.name.encode().ljust(63, b"\x00") + bytes(16) + struct.pack(">HH", 0, 0) + bytes(16)
        + struct.pack(">hH", 2, len(path)) + path + b"\x00" * (len(path) % 2) + struct.pack(">h", -1)
    )  # fmt: skip
    return {"dref": lambda _: struct.pack(">II", 0, 1) + box("alis", bytes(4), alias)}


def chunk(tag: str, *parts: bytes) -> bytes:
    """A chunk of RIFF."""
    data = b"".join(parts)
    return tag.encode() + struct.pack("<I", len(data)) + data + b"\x00" * (len(data) % 2)


def talking_avi(script: str) -> bytes:
    """An AVI with a picture and a subtitle, which is a file of its own: here one that names others."""
    picture = struct.pack(
        "<4s4sIHHIIIIIIIIhhhh", b"vids", b"XVID", 0, 0, 0, 0, 1, 25, 0, 9, 0, 0, 0, 0, 0, 32, 32
    )
    form = struct.pack("<IiiHH4sIiiII", 40, 32, 32, 1, 24, b"XVID", 3072, 0, 0, 0, 0)
    words = struct.pack(
        "<4s4sIHHIIIIIIIIhhhh", b"txts", bytes(4), 0, 0, 0, 0, 1, 25, 0, 9, 0, 0, 0, 0, 0, 0, 0
    )
    head = struct.pack("<14I", 40_000, 0, 0, 0x10, 9, 0, 2, 0, 32, 32, 0, 0, 0, 0)
    gab2 = (
        b"GAB2\x00"
        + struct.pack("<HI", 2, 2)
        + bytes(2)
        + struct.pack("<HI", 4, len(script))
        + script.encode()
    )
    header = chunk(
        "LIST", b"hdrl", chunk("avih", head),
        chunk("LIST", b"strl", chunk("strh", picture), chunk("strf", form)),
        chunk("LIST", b"strl", chunk("strh", words), chunk("strf", b"")),
    )  # fmt: skip
    frames = b"".join(chunk("00dc", bytes(64)) for _ in range(9))
    return chunk("RIFF", b"AVI ", header, chunk("LIST", b"movi", chunk("01tx", gab2), frames))


RECIPES: dict[str, tuple[str, tuple[str, ...]]] = {
    "unlisted decoder": ("mkv", (*PICTURE, "testsrc2=size=64x64:duration=1", "-c:v", "magicyuv")),
    "huge picture": (
        "mkv",
        (*PICTURE, "color=size=16000x16000:rate=1", "-frames:v", "1", "-c:v", "mjpeg", "-q:v", "31"),
    ),
    "thin picture": (
        "mkv",
        (*PICTURE, "color=size=65000x16:rate=1", "-frames:v", "1", "-c:v", "mjpeg"),
    ),
    "1000 a second": (
        "mkv",
        (*PICTURE, "color=size=16x16:rate=1000:duration=2", "-c:v", "mpeg4"),
    ),
    "frames far apart": (
        "mkv",
        (*PICTURE, "color=size=16x16:rate=25", "-vf", "settb=1/1000,setpts='if(eq(N,2),9e9,N*40)'",
         "-frames:v", "3", "-fps_mode", "passthrough", "-enc_time_base", "1:1000", "-c:v", "mjpeg",
         "-f", "matroska", "-live", "1"),
    ),
    "1000 streams": (
        "mov",
        (*PICTURE, "color=size=16x16:rate=5:duration=1", *("-map", "0:0") * 1000, "-c:v", "mpeg4"),
    ),
}  # fmt: skip


def make_source(tools: Tools, folder: Path, name: str) -> Path:
    """A source that ffmpeg itself makes."""
    ending, recipe = RECIPES[name]
    file = folder / f"{name.replace(' ', '-')}.{ending}"
    command = [tools.binaries.ffmpeg, "-v", "error", "-nostdin", "-y", *recipe, file]
    subprocess.run(command, check=True, timeout=60)
    return file
