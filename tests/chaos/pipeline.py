"""The pipeline that runs under chaos: its outputs show which attempt wrote them, and if all of it did."""

import random
import time

from takeup import Pipeline, RetryPolicy

STUBBORN = RetryPolicy(max_attempts=90, initial_s=0.05, cap_s=0.2, jitter=0.5)
FILES = ("a.txt", "b.txt", "sub/c.txt")
LINES = 200

chaos = Pipeline("chaos", lease=2)


@chaos.stage(retries=STUBBORN, phase="planning")
def split(ctx):
    return {"segments": [{"number": number} for number in range(ctx.parameters["segments"])]}


@chaos.stage(needs=[split], each="segment", retries=STUBBORN)
async def work(ctx):
    for percent, name in enumerate(FILES):
        text = f"{ctx.job_id} {ctx.segment} attempt {ctx.folder.name}\n"
        ctx.output(name).write_text(text * LINES)
        ctx.progress(percent * 30, name)
        await ctx.step("sh", "-c", f"sleep {random.uniform(0.0, 0.05):.3f}")
    (ctx.scratch / "left").write_text("scratch")
    if random.random() < 0.05:
        raise RuntimeError("bad luck")
    return {"number": ctx.parameters["number"]}


@chaos.stage(needs=[work], retries=STUBBORN, phase="uploading_outputs")
def join(ctx):
    made = ctx.inputs["work"]
    time.sleep(random.uniform(0.0, 0.05))
    for part in made.made:
        assert sorted(part.files) == sorted(FILES), part
    ctx.output("all.txt").write_text("".join(path.read_text() for path in made.paths("a.txt")))
    return {"numbers": [result["number"] for result in made.results]}
