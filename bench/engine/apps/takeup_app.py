"""The pipelines that our worker is measured with."""

from bench.engine.marks import mark_start
from takeup import Pipeline

fan = Pipeline("fan", lease=60)


@fan.stage()
def split(ctx):
    return {"segments": ctx.parameters["segments"]}


@fan.stage(needs=[split], each="segment")
async def noop(ctx):
    return None


one = Pipeline("one", lease=60)


@one.stage(name="noop")
async def noop_alone(ctx):
    return None


mark = Pipeline("mark", lease=60)


@mark.stage()
async def start(ctx):
    mark_start(ctx.parameters["address"])
