"""Who makes the same ladder of the same source: we, and what one would use otherwise."""

import json
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from takeup.media.binaries import Binaries
from takeup.media.ladder import Rung
from takeup.media.plan import Picture, Plan


class Task(NamedTuple):
    """What is to be made: of this file, by this plan, with these tools, in a folder of its own."""

    source: Path
    plan: Plan
    tools: Binaries
    folder: Path

    @property
    def out(self) -> Path:
        """Where the package goes."""
        return self.folder / "out"

    @property
    def picture(self) -> Picture:
        """The plan has one, since the source has."""
        assert self.plan.picture is not None
        return self.plan.picture


class Order(NamedTuple):
    """A command line and its environment."""

    command: list[str]
    env: Mapping[str, str] | None = None


class Contender(Protocol):
    """Writes what it needs into the folder, and tells the command."""

    name: str
    is_slow: bool
    """Has one turn only, with the short source."""

    def order(self, task: Task) -> Order: ...


class Takeup:
    """`takeup transcode`, as it is installed beside this Python."""

    name = "takeup"
    is_slow = False

    def order(self, task: Task) -> Order:
        program = str(Path(sys.executable).with_name("takeup"))
        env = {
            **os.environ,
            "TAKEUP_FFMPEG_PATH": str(task.tools.ffmpeg),
            "TAKEUP_FFPROBE_PATH": str(task.tools.ffprobe),
        }
        data = str(task.folder / "data")
        return Order([program, "transcode", str(task.source), "-o", str(task.out), "--data", data], env)


class PerRung:
    """One ffmpeg for each rung, one after the other; each decodes again and encodes the sound again."""

    name = "ffmpeg-per-rung"
    is_slow = False

    def order(self, task: Task) -> Order:
        lines = []
        for rung in task.picture.rungs:
            into = task.out / rung.name
            into.mkdir(parents=True)
            shape = ["-vf", f"scale={rung.width}:{rung.height}", "-map", "0:v", "-map", "0:a"]
            hls = [*as_hls(task), "-hls_segment_filename", str(into / "%05d.m4s"), str(into / "index.m3u8")]
            lines.append(
                shlex.join(
                    [*start(task), *shape, *picture_options(task, rung, ""), *sound_options(task), *hls]
                )
            )
        return Order(["sh", "-c", " && ".join(lines)])


class ByHand:
    """One ffmpeg that decodes once, encodes every rung, and writes HLS with the sound beside it."""

    name = "ffmpeg-by-hand"
    is_slow = False

    def order(self, task: Task) -> Order:
        rungs = task.picture.rungs
        task.out.mkdir()
        names = "".join(f"[p{n}]" for n in range(len(rungs)))
        scaled = [f"[p{n}]scale={rung.width}:{rung.height}[v{n}]" for n, rung in enumerate(rungs)]
        graph = ";".join([f"[0:v]split={len(rungs)}{names}", *scaled])
        options = ["-filter_complex", graph]
        for number, rung in enumerate(rungs):
            options += ["-map", f"[v{number}]", *picture_options(task, rung, f":{number}")]
        options += ["-map", "0:a", *sound_options(task)]
        streams = [f"v:{n},agroup:sound,name:{rung.name}" for n, rung in enumerate(rungs)]
        streams.append("a:0,agroup:sound,default:yes,name:sound")
        hls = [*as_hls(task), "-master_pl_name", "master.m3u8", "-var_stream_map", " ".join(streams)]
        files = ["-hls_segment_filename", str(task.out / "%v/%05d.m4s"), str(task.out / "%v/index.m3u8")]
        return Order([*start(task), *options, *hls, *files])


class ShakaStreamer:
    """Shaka Streamer for video on demand: it takes sizes and mean rates, but no CRF, cap or preset."""

    def __init__(self, *, own_preset: bool) -> None:
        """With the preset that it has built in (slow), or with ours, put in its place behind its back."""
        self.name = "shaka-streamer-slow" if own_preset else "shaka-streamer"
        self.is_slow = own_preset

    def order(self, task: Task) -> Order:
        files = {name: task.folder / f"{name}.yaml" for name in ("input", "pipeline", "bitrate")}
        for name, values in self._configuration(task).items():
            files[name].write_text(json.dumps(values))  # which is YAML, too
        options = [word for name, file in files.items() for word in (f"--{name}-config", str(file))]
        program = str(Path(sys.executable).with_name("shaka-streamer"))
        command = [sys.executable, program, *options, "-o", str(task.out)]
        if self.is_slow:
            return Order(command)
        places = f"{self._tools_with_our_preset(task)}{os.pathsep}{os.environ['PATH']}"
        return Order([*command, "--use-system-binaries", "--skip-deps-check"], {**os.environ, "PATH": places})

    def _configuration(self, task: Task) -> dict[str, object]:
        picture, (sound,) = task.picture, task.plan.sounds
        kinds = ("video", "audio")
        sizes = {
            rung.name: {
                "max_width": rung.width,
                "max_height": rung.height,
                "bitrates": {"h264": f"{rung.max_kbps}k"},
            }
            for rung in picture.rungs
        }
        stereo = {"max_channels": sound.channels, "bitrates": {"aac": f"{sound.kbps}k"}}
        return {
            "input": {"inputs": [{"name": str(task.source), "media_type": kind} for kind in kinds]},
            "pipeline": {
                "streaming_mode": "vod",
                "resolutions": list(sizes),
                "channel_layouts": ["stereo"],
                "audio_codecs": ["aac"],
                "video_codecs": ["h264"],
                "manifest_format": ["dash", "hls"],
                "segment_size": float(picture.keys_every / picture.rate),
                "segment_per_file": True,
                "quiet": True,
            },
            "bitrate": {"video_resolutions": sizes, "audio_channel_layouts": {"stereo": stereo}},
        }

    def _tools_with_our_preset(self, task: Task) -> Path:
        folder = task.folder / "tools"
        folder.mkdir()
        (folder / "ffprobe").symlink_to(task.tools.ffprobe)
        packager = task.tools.ffmpeg.name.replace("ffmpeg", "packager")
        (folder / "packager").symlink_to(task.tools.ffmpeg.with_name(packager))
        changed = f'[ "$before" = -preset ] && word={task.picture.rungs[0].preset}'
        (folder / "ffmpeg").write_text(
            f'#!/bin/sh\nfor word; do shift; {changed}; before=$word; set -- "$@" "$word"; done\n'
            f'exec {task.tools.ffmpeg} "$@"\n'
        )
        (folder / "ffmpeg").chmod(0o755)
        return folder


def start(task: Task) -> list[str]:
    return [str(task.tools.ffmpeg), "-v", "error", "-nostdin", "-y", "-i", str(task.source)]


def picture_options(task: Task, rung: Rung, which: str) -> list[str]:
    """Our settings of the encoder, but as many threads as ffmpeg takes by itself."""
    keys = task.picture.keys_every
    options = {
        "-c:v": rung.encoder,
        "-preset:v": rung.preset,
        "-profile:v": "high",
        "-pix_fmt:v": "yuv420p",
        "-crf:v": rung.crf,
        "-maxrate:v": f"{rung.max_kbps}k",
        "-bufsize:v": f"{rung.buffer_kbits}k",
        "-g:v": keys,
        "-keyint_min:v": keys,
        "-sc_threshold:v": 0,
    }
    return [word for name, value in options.items() for word in (name + which, str(value))]


def sound_options(task: Task) -> list[str]:
    (sound,) = task.plan.sounds
    return ["-c:a", "aac", "-b:a", f"{sound.kbps}k", "-ac", str(sound.channels), "-ar", "48000"]


def as_hls(task: Task) -> list[str]:
    """Files as long as ours."""
    seconds = float(task.picture.fragment / task.picture.rate)
    return [
        "-f", "hls", "-hls_time", f"{seconds:g}", "-hls_playlist_type", "vod", "-hls_segment_type", "fmp4",
        "-hls_flags", "independent_segments",
    ]  # fmt: skip


OURS = Takeup()
BY_HAND = ByHand()
CONTENDERS: tuple[Contender, ...] = (
    OURS,
    PerRung(),
    BY_HAND,
    ShakaStreamer(own_preset=False),
    ShakaStreamer(own_preset=True),
)
