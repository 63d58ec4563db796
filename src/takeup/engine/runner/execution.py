"""Runs the tasks that a runner was given and reports how each ended."""

import asyncio
import inspect
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import Any

from takeup.artifacts.layout import output_key
from takeup.artifacts.local import LocalArtifacts
from takeup.artifacts.manifest import Manifest
from takeup.artifacts.scratch import Scratch
from takeup.core.errors import DISK_FULL, InvalidInput, InvalidResult, NotFound, TakeupError
from takeup.core.model import Artifact, Brief
from takeup.core.pipeline import Pipeline, Stage, splitter_of
from takeup.core.plan import segments_of
from takeup.core.points import point
from takeup.core.report import check_after_s, result_text
from takeup.core.signals import Fatal, Retry
from takeup.engine.runner.channel import Channel
from takeup.engine.runner.context import Context
from takeup.engine.wire import Frame, Start

GROUPS_MAX = 10
OWN = f"{Path(__file__).parents[2]}{os.sep}"
LIBRARY = f"{Path(os.__file__).parent}{os.sep}"
"""Where Takeup and Python's own modules are: no line there is the user's."""

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
        stages = [stage for pipeline in pipelines.values() for stage in pipeline.stages.values()]
        self._asyncs = {id(s.function) for s in stages if inspect.iscoroutinefunction(s.function)}
        self._places = places
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="takeup-stage")
        self._is_alone = threads == 1
        self._running: dict[tuple[int, int], tuple[Context, asyncio.Task[None]]] = {}
        self._ended: list[End] = []

    def obey(self, frames: Sequence[Frame]) -> None:
        """Carry out orders that came together."""
        for frame in frames:
            self._obey(frame)

    def _obey(self, frame: Frame) -> None:
        """Start tasks, or stop one."""
        if frame["op"] == "start":
            for fields in frame["tasks"]:
                start = Start._make(fields)
                try:
                    self._begin(start, Brief._make(frame["jobs"][start.job_id]))
                except Exception as error:  # noqa: BLE001 - one task that cannot begin must not keep the others
                    end = _failed(error, retryable=True)
                    self._tell([end | {"id": start.task_id, "epoch": start.epoch}])
        elif frame["op"] == "cancel" and (frame["id"], frame["epoch"]) in self._running:
            context, task = self._running[frame["id"], frame["epoch"]]
            context.cancelled = True
            if (
                context.is_async
            ):  # a thread cannot be stopped: it may look at ctx.cancelled before it is killed
                task.cancel()

    def _begin(self, start: Start, brief: Brief) -> None:
        pipeline = self._pipelines.get(start.pipeline)
        stage = pipeline.stages.get(start.stage) if pipeline else None
        if stage is None:
            raise Retry(f"this worker knows no stage {start.pipeline}/{start.stage}")
        context = Context(
            start,
            brief,
            needs=stage.needs,
            places=self._places,
            channel=self._channel,
            loop=asyncio.get_running_loop(),
            is_async=id(stage.function) in self._asyncs,
        )
        task = asyncio.create_task(self._attempt(context, stage))
        self._running[context.task_id, context.folder.epoch] = context, task

    async def _attempt(self, context: Context, stage: Stage) -> None:
        try:
            end = await self._outcome(context, stage)
        except asyncio.CancelledError:
            end = {"how": "cancelled"}
        except BaseException as error:  # noqa: BLE001 - a GeneratorExit passes by whoever awaits further in
            end = _failed(error, retryable=True)
        self._running.pop((context.task_id, context.folder.epoch), None)
        end["id"], end["epoch"] = context.task_id, context.folder.epoch
        if context.has_scratch:
            end["has_scratch"] = True
        if self._is_alone and has_children():
            end["is_dirty"] = True
        if not self._ended:
            asyncio.get_running_loop().call_soon(self._flush)
        self._ended.append(end)

    def _flush(self) -> None:
        ended, self._ended = self._ended, []
        self._tell(ended)

    def _tell(self, ended: list[End]) -> None:
        """Send the ends in as many frames as they take; one that cannot be sent failed."""
        try:
            self._channel.send({"op": "ended", "tasks": ended})
        except (InvalidInput, ValueError, TypeError) as error:
            if len(ended) > 1:
                for end in ended:
                    self._tell([end])
                return
            (end,) = ended
            failed = _failed(InvalidResult(f"its result cannot be sent: {error}"), retryable=False)
            self._channel.send({"op": "ended", "tasks": [failed | {"id": end["id"], "epoch": end["epoch"]}]})

    async def _outcome(self, context: Context, stage: Stage) -> End:
        try:
            return await self._work(context, stage)
        except Retry as error:
            return _again(error)
        except (Fatal, TakeupError) as error:  # bad results and names do not get better by trying again
            return _failed(error, retryable=isinstance(error, TakeupError) and error.retryable) | _signed(
                error
            )
        except SystemExit as error:
            return _failed(RuntimeError(f"the stage called sys.exit({error.code!r})"), retryable=True)
        except OSError as error:
            return _failed(error, retryable=True) | {"is_disk_full": error.errno in DISK_FULL}
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever a stage raises ends its attempt, nothing else
            return _failed(error, retryable=True)

    async def _work(self, context: Context, stage: Stage) -> End:
        manifest = await asyncio.to_thread(self._found, context, stage) if context.attempt > 1 else None
        if manifest is None:
            result = self._check(context, await self._call(context, stage))
            point("stage.after function")
            if not context.has_outputs:
                return {"how": "done", "result": result}
            manifest = await asyncio.to_thread(self._seal, context, stage, result)
        point("stage.after seal")
        files = [_as_list(artifact) for artifact in manifest.files]
        return {"how": "done", "result": dict(manifest.result), "artifacts": files, "key": manifest.key}

    async def _call(self, context: Context, stage: Stage) -> Any:
        function = stage.function
        if function is None:
            raise Fatal(f"stage {stage.name} has no function")
        if context.is_async:
            return await function(context)
        call = copy_context().run
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, call, _call_plain, function, context)

    def _key(self, context: Context, stage: Stage) -> str:
        pipeline = f"{context.pipeline}.v{self._pipelines[context.pipeline].version}"
        return output_key(
            pipeline, context.job_id, context.generation, context.stage, stage.version, context.segment
        )

    def _found(self, context: Context, stage: Stage) -> Manifest | None:
        """The outputs of an earlier attempt that died after making them, if they are whole."""
        artifacts, _ = self._places
        manifest = artifacts.find(context.folder, self._key(context, stage))
        if manifest is None:
            return None
        try:
            adopted = artifacts.adopt(context.folder, manifest)
        except NotFound:
            return None
        context.log.info("the outputs of an earlier attempt verify; the stage is not run again")
        return adopted

    def _seal(self, context: Context, stage: Stage, result: Mapping[str, Any]) -> Manifest:
        artifacts, _ = self._places
        return artifacts.seal(
            context.folder, self._key(context, stage), stage.version, result, is_temporary=stage.temporary
        )

    def _check(self, context: Context, result: Any) -> dict[str, Any]:
        if result is None and context.stage not in self._splitters[context.pipeline]:
            return {}
        if result is None:
            raise InvalidResult(
                f"stage {context.stage} returned nothing, but others run for each of its segments; "
                "return {'segments': [...]}"
            )
        if not isinstance(result, Mapping):
            raise InvalidResult(
                f"stage {context.stage} returned {type(result).__name__}; return a dict of JSON or nothing"
            )
        result_text(result)
        if context.stage in self._splitters[context.pipeline]:
            segments_of(result)
        return dict(result)


def _splitters(pipeline: Pipeline) -> frozenset[str]:
    return frozenset(splitter_of(stage, pipeline.stages) for stage in pipeline.stages.values() if stage.each)


def _call_plain(function: Any, context: Context) -> Any:
    """Call a stage in its thread; no future can carry a StopIteration out of it."""
    try:
        return function(context)
    except StopIteration as error:
        raise RuntimeError("the stage raised StopIteration") from error


def _failed(error: BaseException, *, retryable: bool) -> End:
    words, inner = _words(error), error
    for _ in range(GROUPS_MAX):
        if not isinstance(inner, BaseExceptionGroup):
            break
        inner = inner.exceptions[0]
    if inner is not error:
        words = f"{words}, first of all {_words(inner)}"
    return {"how": "failed", "error": words, "retryable": retryable}


def _signed(error: Exception) -> End:
    """For an error that is final the second time, how to know it again."""
    if not isinstance(error, TakeupError) or not error.fails_twice:
        return {}
    sign = f"{error.code}: "
    return {"sign": sign, "error": f"{sign}{_words(error)}"}


def _words(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception as worse:  # noqa: BLE001 - even its words may fail
        text = f"its text cannot be made: {type(worse).__name__}"
    name = "" if isinstance(error, TakeupError | Fatal | Retry) else type(error).__name__
    where = _where(error)
    message = ": ".join(part for part in (name, text) if part) + (f" ({where})" if where else "")
    return message or type(error).__name__


def _again(error: Retry) -> End:
    try:
        end = _failed(error, retryable=True) | {"after": check_after_s(error.after)}
        return end | {"error": f"it asked to be tried again: {end['error']}", "asks_again": True}
    except InvalidInput as wrong:
        return _failed(wrong, retryable=False)


def _where(error: BaseException) -> str:
    """The last line of the user's own code that the error passed."""
    traceback = error.__traceback__
    place = ""
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if not file.startswith(("<", OWN)) and (not file.startswith(LIBRARY) or "-packages" in file):
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
