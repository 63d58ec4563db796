"""Runs the tasks that a runner was given and reports how each ended."""

import asyncio
import errno
import inspect
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import Any

from takeup.artifacts.layout import output_key
from takeup.artifacts.local import LocalArtifacts
from takeup.artifacts.manifest import Manifest
from takeup.artifacts.scratch import Scratch
from takeup.core.errors import InvalidInput, InvalidResult, InvalidSpec, TakeupError
from takeup.core.model import Artifact
from takeup.core.pipeline import Pipeline, Stage, splitter_of
from takeup.core.plan import segments_of
from takeup.core.points import point
from takeup.core.report import result_text
from takeup.core.signals import Fatal, Retry
from takeup.engine.runner.channel import Channel
from takeup.engine.runner.context import Context
from takeup.engine.wire import Frame

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)

End = dict[str, Any]


class Execution:
    """The tasks that run in this process."""

    def __init__(
        self,
        channel: Channel,
        pipelines: Mapping[str, Pipeline],
        places: tuple[LocalArtifacts, Scratch],
        *,
        threads: int,
    ) -> None:
        """Stages that are plain functions run in so many threads."""
        self._channel = channel
        self._pipelines = pipelines
        self._splitters = {name: _splitters(pipeline) for name, pipeline in pipelines.items()}
        self._places = places
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="takeup-stage")
        self._is_alone = threads == 1
        self._running: dict[int, tuple[Context, asyncio.Task[None]]] = {}
        self._ended: list[End] = []

    def obey(self, frame: Frame) -> None:
        """Start tasks, or stop one."""
        if frame["op"] == "start":
            for start in frame["tasks"]:
                self._begin(start)
        elif frame["op"] == "cancel" and frame["id"] in self._running:
            context, task = self._running[frame["id"]]
            context.cancelled = True
            if (
                context.is_async
            ):  # a thread cannot be stopped: it may look at ctx.cancelled before it is killed
                task.cancel()

    def _begin(self, start: Mapping[str, Any]) -> None:
        stage = self._pipelines[start["pipeline"]].stages[start["stage"]]
        assert stage.function is not None
        context = Context(
            start,
            needs=stage.needs,
            places=self._places,
            channel=self._channel,
            loop=asyncio.get_running_loop(),
            is_async=inspect.iscoroutinefunction(stage.function),
        )
        task = asyncio.create_task(self._attempt(context, stage))
        self._running[context.task_id] = context, task

    async def _attempt(self, context: Context, stage: Stage) -> None:
        try:
            end = await self._outcome(context, stage)
        except asyncio.CancelledError:
            end = {"how": "cancelled"}
        self._running.pop(context.task_id, None)
        end |= {
            "id": context.task_id,
            "epoch": context.folder.epoch,
            "is_dirty": self._is_alone and has_children(),
        }
        if not self._ended:
            asyncio.get_running_loop().call_soon(self._flush)
        self._ended.append(end)

    def _flush(self) -> None:
        ended, self._ended = self._ended, []
        self._channel.send({"op": "ended", "tasks": ended})

    async def _outcome(self, context: Context, stage: Stage) -> End:
        try:
            key = self._key(context, stage)
            manifest = self._found(context, key)
            if manifest is None:
                result = await self._call(context, stage)
                point("stage.after function")
                checked = self._check(context, result)
                if not context.has_outputs:
                    return {"how": "done", "result": checked, "artifacts": [], "key": None}
                manifest = await asyncio.to_thread(self._seal, context, key, stage, checked)
            point("stage.after seal")
            files = [_as_list(artifact) for artifact in manifest.files]
            return {"how": "done", "result": dict(manifest.result), "artifacts": files, "key": key}
        except Fatal as error:
            return _failed(error, retryable=False)
        except Retry as error:
            return _failed(error, retryable=True) | {"after": error.after}
        except OSError as error:
            return _failed(error, retryable=True) | {"is_disk_full": error.errno in DISK_FULL}
        except (InvalidResult, InvalidSpec, InvalidInput) as error:
            return _failed(error, retryable=False)
        except Exception as error:  # noqa: BLE001 - whatever a stage raises ends its attempt, nothing else
            return _failed(error, retryable=True)

    async def _call(self, context: Context, stage: Stage) -> Any:
        assert stage.function is not None
        if inspect.iscoroutinefunction(stage.function):
            return await stage.function(context)
        call = copy_context().run
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, stage.function, context)

    def _key(self, context: Context, stage: Stage) -> str:
        version = f"{self._pipelines[context.pipeline].version}.{stage.version}"
        return output_key(
            context.pipeline, context.job_id, context.generation, context.stage, version, context.segment
        )

    def _found(self, context: Context, key: str) -> Manifest | None:
        """The outputs of an earlier attempt that died after making them, if they are whole."""
        artifacts, _ = self._places
        if context.attempt == 1:
            return None
        manifest = artifacts.find(context.folder, key)
        if manifest is None:
            return None
        context.log.info("the outputs of an earlier attempt verify; the stage is not run again")
        return artifacts.adopt(context.folder, manifest)

    def _seal(self, context: Context, key: str, stage: Stage, result: Mapping[str, Any]) -> Manifest:
        artifacts, _ = self._places
        version = f"{self._pipelines[context.pipeline].version}.{stage.version}"
        return artifacts.seal(context.folder, key, version, result)

    def _check(self, context: Context, result: Any) -> dict[str, Any]:
        if result is None:
            result = {}
        if not isinstance(result, Mapping):
            raise InvalidResult(
                f"stage {context.stage} returned {type(result).__name__}; return a dict of JSON values or nothing"
            )
        result_text(result)
        if context.stage in self._splitters[context.pipeline]:
            segments_of(result)
        return dict(result)


def _splitters(pipeline: Pipeline) -> frozenset[str]:
    return frozenset(splitter_of(stage, pipeline.stages) for stage in pipeline.stages.values() if stage.each)


def _failed(error: Exception, *, retryable: bool) -> End:
    text = str(error)
    name = "" if isinstance(error, TakeupError | Fatal | Retry) else type(error).__name__
    where = _where(error)
    message = ": ".join(part for part in (name, text) if part) + (f" ({where})" if where else "")
    return {"how": "failed", "error": message or type(error).__name__, "retryable": retryable}


def _where(error: Exception) -> str:
    """The last line of the user's own code that the error passed."""
    traceback = error.__traceback__
    place = ""
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if f"{os.sep}takeup{os.sep}" not in file and not file.startswith("<"):
            place = f"{Path(file).name}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place


def _as_list(artifact: Artifact) -> list[Any]:
    return [artifact.name, artifact.key, artifact.sha256, artifact.size_bytes]


def has_children() -> bool:
    """Whether processes are left that the only stage of this process started and did not wait for."""
    for thread in os.listdir("/proc/self/task"):  # noqa: PTH208 - asked after every task
        try:
            with open(f"/proc/self/task/{thread}/children", "rb") as file:  # noqa: PTH123 - see above
                if file.read(1):
                    return True
        except OSError:
            continue
    return False
