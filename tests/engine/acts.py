"""Stages that misbehave on demand: the spec of a job says what its stage does."""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from takeup import Fatal, Pipeline, Retry, RetryPolicy
from takeup.core.errors import TakeupError
from takeup.testing import crash

QUICK = RetryPolicy(max_attempts=3, initial_s=0.05, cap_s=0.1)

act = Pipeline("act", lease=2)


def hold_the_interpreter(ctx):
    ctypes.PyDLL(None).sleep(ctx.parameters["seconds"])  # PyDLL does not let go of the interpreter's lock


def run_a_tree(ctx):
    """A shell with a child in the background and one in the foreground."""
    ctx.step("sh", "-c", "sleep 300 & sleep 300")


def leave_a_child(ctx):
    subprocess.Popen(["sleep", "300"])  # noqa: S607 - whichever sleep there is


def leave_a_daemon(ctx):
    subprocess.Popen(["sh", "-c", "setsid sleep 300 & exit"], start_new_session=True).wait()  # noqa: S607 - see above


def die(ctx):
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(ctx):
    if ctx.attempt == 1:
        die(ctx)
    return {"attempt": ctx.attempt}


def seal_and_die_once(ctx):
    """The outputs are sealed after the stage returned; this process is to die right then, the first time."""
    if ctx.attempt == 1:
        crash.arm_from_environment({crash.VARIABLE: ctx.parameters["die_at"]})
    with Path(ctx.parameters["count"]).open("a") as file:
        file.write("run\n")
    ctx.output("out.txt").write_text("made once")


def junk(ctx):
    return 42


def no_json(ctx):
    return {"what": object()}


def fatal(ctx):
    raise Fatal("the source is corrupt")


class Feigned(TakeupError):
    retryable = True


def feign(ctx):
    raise Feigned("it asked to be tried again: no device")


def again_later(ctx):
    if ctx.attempt == 1:
        raise Retry("not there yet", after=0.2)


def fail(ctx):
    raise ValueError("boom")


def echo(ctx):
    print("a printed line with password=hunter2")
    ctx.log.info("a logged line", url="postgresql://user:hunter2@db/x")
    ctx.step("sh", "-c", "echo out; echo err >&2; exit 0")
    ctx.step("sh", "-c", "exit 7 # token=hunter2", check=False)
    ctx.progress(50, "half")
    return {"spec": dict(ctx.spec), "subject": ctx.subject}


def fill_scratch(ctx):
    (ctx.scratch / "big").write_bytes(b"x" * ctx.parameters["bytes"])


def bad_output(ctx):
    ctx.output("../outside")


def nothing(ctx):
    return None


def sleep(ctx):
    time.sleep(ctx.parameters["seconds"])


def watch_for_cancel(ctx):
    while not ctx.cancelled:
        time.sleep(0.01)
    Path(ctx.parameters["told"]).touch()


def never_again(ctx):
    raise Retry("not in this life", after=float("inf"))


def talk_nonsense(ctx):
    os.write(3, (5).to_bytes(4, "big") + b"12345")
    time.sleep(30)


def forge_an_end(ctx):
    """Claim that some other task is done, in words that its own channel would use."""
    frame = {
        "op": "ended",
        "tasks": [{"id": ctx.parameters["victim"], "epoch": 1, "how": "done", "result": {}}],
    }
    ctx._channel.send(frame)
    time.sleep(ctx.parameters["seconds"])


def bad_percent(ctx):
    ctx._channel.send(
        {"op": "progress", "id": ctx.task_id, "epoch": ctx.folder.epoch, "percent": "all", "note": 1}
    )
    time.sleep(30)


def leave_by_the_window(ctx):
    sys.exit(3)


def tell_a_secret(ctx):
    ctx.progress(10, "token=hunter2")
    raise ValueError("cannot log in with password=hunter2")


def log_what_cannot_be_stored(ctx):
    ctx.log.info("a \x00 and a \ud800 line", field="\x00")
    ctx.log.info("a good line")


class Rude(BaseException):
    pass


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError


def stop_iterating(ctx):
    return next(iter([]))


def fail_together(ctx):
    raise ExceptionGroup("two", [ExceptionGroup("one", [KeyError("inner")]), ValueError("other")])


def be_rude(ctx):
    raise Rude("not even an exception")


def be_mute(ctx):
    raise Mute


def leave_a_generator(ctx):
    raise GeneratorExit


def log_no_number(ctx):
    ctx.log.info("loss", value=float("nan"), other=float("inf"))


ACTS = {
    function.__name__: function
    for function in list(globals().values())
    if getattr(function, "__module__", "") == __name__
}


@act.stage(name="act", retries=QUICK)
def do(ctx):
    return ACTS[ctx.parameters["act"]](ctx)


waits = Pipeline("waits", lease=3)


@waits.stage(retries=QUICK)
async def block_the_loop(ctx):
    time.sleep(ctx.parameters["seconds"])  # noqa: ASYNC251 - that is the fault


holds = Pipeline("holds", lease=3)


@holds.stage(retries=QUICK)
def hold(ctx):
    hold_the_interpreter(ctx)


idle = Pipeline("idle", lease=3)


@idle.stage(retries=RetryPolicy(max_attempts=1), stall=1)
async def stall(ctx):
    await asyncio.sleep(300)


endless = Pipeline("endless", lease=3)


@endless.stage(retries=RetryPolicy(max_attempts=1), timeout=0.5)
async def run_on(ctx):
    while True:
        ctx.progress(1, "on and on")
        await asyncio.sleep(0.05)


fan = Pipeline("fan", lease=30)


@fan.stage()
def split(ctx):
    return {"segments": ctx.parameters["segments"]}


@fan.stage(needs=[split], each="segment")
async def noop(ctx):
    return None


@fan.stage(needs=[noop])
def join(ctx):
    return {"count": len(ctx.inputs["noop"].results)}


gpu = Pipeline("gpu", lease=30)


@gpu.stage(requires={"gpu"})
def render(ctx):
    return {"done": True}
