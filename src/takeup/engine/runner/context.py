"""What a stage is given: parameters and inputs, and ways to put out files, report, log and run commands."""

import asyncio
import math
import os
import shutil
import time
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import cached_property
from pathlib import Path
from typing import Any

from takeup.artifacts.layout import TaskFolder, check_name, split_key
from takeup.artifacts.local import LocalArtifacts
from takeup.artifacts.scratch import Scratch
from takeup.child.run import Ended, run_child
from takeup.child.sparse import SparseCopy
from takeup.core.ids import new_id
from takeup.core.model import Brief
from takeup.core.report import check_percent
from takeup.engine.runner.channel import Channel
from takeup.engine.runner.inputs import Input, Inputs, Made, Names
from takeup.engine.runner.steps import StepFailed
from takeup.engine.wire import Start

PROGRESS_EVERY_S = 0.1
NOTE_CHARS_MAX = 500
MESSAGE_CHARS_MAX = 8000


class Log:
    """A stage's own log lines; they carry job, task, attempt and epoch by themselves."""

    def __init__(self, send: Callable[[Mapping[str, Any]], None]) -> None:
        """Lines go to the worker."""
        self._send = send

    def debug(self, message: str, **fields: Any) -> None:
        """For somebody who looks closely."""
        self._write("debug", message, fields)

    def info(self, message: str, **fields: Any) -> None:
        """Something worth knowing happened."""
        self._write("info", message, fields)

    def warning(self, message: str, **fields: Any) -> None:
        """Something is odd, but the work goes on."""
        self._write("warn", message, fields)

    def error(self, message: str, **fields: Any) -> None:
        """Something went wrong."""
        self._write("error", message, fields)

    def _write(self, level: str, message: str, fields: Mapping[str, Any]) -> None:
        kept = {name: _plain(value) for name, value in fields.items()}
        self._send({"op": "log", "level": level, "message": str(message)[:MESSAGE_CHARS_MAX], "fields": kept})


class Context:
    """One attempt at one task, as its stage sees it."""

    def __init__(
        self,
        start: Start,
        brief: Brief,
        *,
        needs: tuple[str, ...],
        places: tuple[LocalArtifacts, Scratch],
        channel: Channel,
        loop: asyncio.AbstractEventLoop,
        is_async: bool,
    ) -> None:
        """Made by the runner of what the worker sent."""
        self.task_id = start.task_id
        self.job_id = start.job_id
        self.pipeline = start.pipeline
        self.stage = start.stage
        self.segment = start.segment
        self.generation = start.generation
        self.attempt = start.attempt
        self.max_attempts = start.max_attempts
        self.subject = brief.subject
        self._start, self._brief = start, brief
        self.cancelled = False
        """Set when the worker orders a stop; a moment later the process is killed."""
        self.folder = TaskFolder(start.task_id, start.epoch, start.nonce_hash)
        self.has_outputs = self.has_scratch = False
        self._needs = needs
        self._artifacts, self._scratch = places
        self._channel = channel
        self._loop = loop
        self.is_async = is_async
        self._reported_at = 0.0

    @cached_property
    def spec(self) -> Mapping[str, Any]:
        """What the job was submitted with; a copy, so that no other task sees what a stage does to it."""
        return deepcopy(dict(self._brief.spec))

    @cached_property
    def parameters(self) -> Mapping[str, Any]:
        """The job's spec and what its splitter said of this segment."""
        return {**self.spec, **self._start.parameters}

    @cached_property
    def inputs(self) -> Inputs:
        """What the stages made that this one needs, by their names."""
        return Inputs(self._needs, self._fetch)

    @cached_property
    def former(self) -> Made | None:
        """What this same task made when the job ran before and failed; only if all of it is still sound."""
        for row in self._ask(self.stage):
            files = row["files"]
            places = {split_key(key)[0] for key in files.values()}
            if all(self._artifacts.find(self.folder, place) for place in places):
                paths = {name: self._artifacts.open_path(key) for name, key in files.items()}
                return Made(row["segment"], row["result"], paths)
        return None

    @cached_property
    def log(self) -> Log:
        """Log lines of this attempt."""
        return Log(self._tell)

    def file(self, name: str) -> Path:
        """The file whose path stands in the spec under this name; fetched, if this worker is elsewhere."""
        question = {"id": self.task_id, "epoch": self.folder.epoch, "file": name}
        return Path(self._channel.ask(question))

    def sparse(self, name: str, stage: str | None = None) -> SparseCopy | None:
        """The same file, or what a needed stage made by this name, without fetching it; None if it is here.

        It can be read by a command with a guard that knows of it: there each read waits for its bytes.
        """
        question: dict[str, Any] = {"id": self.task_id, "epoch": self.folder.epoch, "sparse": name}
        if stage is not None:
            question["sparse"] = self._ask(stage, ())[0]["files"][name]
            question["is_output"] = True
        told = self._channel.ask(question)
        if told is None:
            return None

        def fetch(start: int, end: int) -> list[tuple[int, int]]:
            span = {"start": start, "end": end, "copy": told["id"]}
            return [(begin, after) for begin, after in self._channel.ask({**question, **span})]

        return SparseCopy(Path(told["path"]), told["size"], told["changed_ns"], told["inode"], fetch)

    @property
    def scratch(self) -> Path:
        """A directory of this attempt alone, removed when it ends."""
        self.has_scratch = True
        return self._scratch.make(self.folder)

    def output(self, name: str) -> Path:
        """Where to write the output file of this name; it becomes visible only if this attempt wins."""
        path = self._artifacts.stage(self.folder) / check_name(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.has_outputs = True
        return path

    def keep(self, file: Path, name: str) -> Path:
        """Make a copy of a finished file the output of this name."""
        path = self.output(name)
        shutil.copyfile(file, path)
        return path

    def progress(self, percent: float | None = None, note: str | None = None) -> None:
        """Say how far the work is; a stage with a stall limit must say so now and then."""
        checked = check_percent(percent)
        now = time.monotonic()
        if now - self._reported_at >= PROGRESS_EVERY_S or checked == 100:  # noqa: PLR2004 - percent
            self._reported_at = now
            text = None if note is None and checked is not None else str(note or "")[:NOTE_CHARS_MAX]
            self._tell({"op": "progress", "percent": checked, "note": text})

    def step(
        self,
        *command: str | Path,
        kind: str = "command",
        check: bool = True,
        **options: Any,
    ) -> Any:
        """Run a command and record it; an async stage awaits this. A failed one raises unless told not to.

        The options are those of `run_child`: `cwd`, `env`, `on_line`, `guard`, `watch` and `stdout`.
        """
        running = self._step(command, kind=kind, check=check, options=options)
        if self.is_async:
            return running
        return asyncio.run_coroutine_threadsafe(running, self._loop).result()

    async def _step(
        self,
        command: tuple[str | Path, ...],
        *,
        kind: str,
        check: bool,
        options: Mapping[str, Any],
    ) -> Ended:
        record = {
            "op": "step",
            "step_id": new_id("step", os.urandom),
            "kind": kind,
            "command": list(map(str, command)),
        }
        self._tell({**record, "state": "begun"})
        try:
            step = await run_child(command, **options)
        except BaseException as error:
            self._tell(
                {**record, "state": "ended", "error": f"{type(error).__name__}: {error}"[:MESSAGE_CHARS_MAX]}
            )
            raise
        ended = {"exit_code": step.exit_code, "stdout": step.stdout, "stderr": step.stderr}
        self._tell({**record, **ended, "state": "ended", "duration_ms": step.duration_ms})
        if check and step.exit_code != 0:
            raise StepFailed(step)
        return step

    def _fetch(self, stage: str, names: Names) -> Input:
        made = []
        for row in self._ask(stage, names):
            keys = {name: key for name, key in row["files"].items() if names is None or name in names}
            paths = {name: self._artifacts.open_path(key) for name, key in keys.items()}
            made.append(Made(row["segment"], row["result"], paths))
        return Input(stage, made)

    def _ask(self, stage: str, names: Names = None) -> list[Any]:
        """What the worker knows of the finished tasks of a stage; the files of these names are here then."""
        made: list[Any] = []
        after: int | None = -2
        about = {"id": self.task_id, "epoch": self.folder.epoch, "stage": stage, "names": names}
        while after is not None:
            question = {**about, "after": after}
            page = self._channel.ask(question)
            made += page["made"]
            after = page["after"]
        return made

    def _tell(self, frame: Mapping[str, Any]) -> None:
        self._channel.send({**frame, "id": self.task_id, "epoch": self.folder.epoch})


def _plain(value: Any) -> Any:
    """A log field as JSON can hold it."""
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value if isinstance(value, str | int | float | bool | None) else repr(value)[:MESSAGE_CHARS_MAX]
