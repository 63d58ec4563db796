"""The pipelines that our worker is measured with."""

from bench.engine.marks import mark_start
from takeup import Context, Pipeline

fan = Pipeline("fan", lease=60)


@fan.stage()
def split(ctx: Context) -> dict[str, int]:
    return {"segments": ctx.parameters["segments"]}


@fan.stage(needs=[split], each="segment")
async def noop(_ctx: Context) -> None:
    return


whole = Pipeline("whole", lease=60)


@whole.stage(name="split")
def split_whole(ctx: Context) -> dict[str, int]:
    return {"segments": ctx.parameters["segments"]}


@whole.stage(name="noop", needs=[split_whole], each="segment")
async def noop_of_whole(_ctx: Context) -> None:
    return


@whole.stage(needs=[noop_of_whole])
async def join(_ctx: Context) -> None:
    return


one = Pipeline("one", lease=60)


@one.stage(name="noop")
async def noop_alone(_ctx: Context) -> None:
    return


mark = Pipeline("mark", lease=60)


@mark.stage()
async def start(ctx: Context) -> None:
    mark_start(ctx.parameters["address"])
