"""How alike are two readings of a page? One row for each (url, iteration), three stages."""

import hashlib

from takeup import Pipeline, RetryPolicy

similarity = Pipeline("similarity", key=("url", "iteration"), lease="15m")


@similarity.stage(retries=RetryPolicy(max_attempts=3, initial_s=0.2))
def fetch(ctx):
    """Here the page would be loaded; its text is made up, so that the example needs no network."""
    text = " ".join(words(ctx.spec["url"], ctx.spec["iteration"]))
    ctx.output("page.txt").write_text(text)


@similarity.stage(needs=[fetch])
def embed(ctx):
    counted = ctx.inputs["fetch"].path("page.txt").read_text().split()
    return {"words": sorted(set(counted))}


@similarity.stage(needs=[embed])
async def compare(ctx):
    """The share of words that the reading before had too."""
    now = set(ctx.inputs["embed"].result["words"])
    before = set(words(ctx.spec["url"], ctx.spec["iteration"] - 1))
    return {"similarity": len(now & before) / len(now | before)}


def words(url, iteration):
    marks = hashlib.sha256(f"{url} {iteration // 2}".encode()).hexdigest()
    return [marks[i : i + 2] for i in range(0, 32, 2)]
