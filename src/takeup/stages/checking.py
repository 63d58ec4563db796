"""The gate before publication: a package that breaks a rule, or shows other pictures, stays in."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from takeup.media import package
from takeup.media.errors import MediaError
from takeup.media.plan import Plan
from takeup.stages.planned import Stored, known_frames, planned_source, stored_plan, tools_for

if TYPE_CHECKING:
    from takeup.media.check.judge import Step

FULL = "full"
FINDINGS_TOLD = 3
PIECES_A_PLACE = 30
PLACES_MAX = 10
SHARES = {"read": (0.0, 20.0), "decode": (20.0, 60.0), "compare": (60.0, 100.0)}


async def check_package(ctx: Any) -> dict[str, Any]:
    """Hold the package to the rules before it is published."""
    return await hold_to_rules(ctx, stored_plan(ctx), ctx.inputs["package"].path(package.MASTER).parent)


async def hold_to_rules(ctx: Any, stored: Stored, folder: Path) -> dict[str, Any]:
    """Judge the package in this folder; what is found wrong is the reason of the failure.

    To decode all of it again and to compare every picture costs about a quarter of the encoding: that is done
    where the spec asks for it. Else the pictures of a long source are compared in some places.
    """
    from takeup.media.check.access import open_access  # noqa: PLC0415 - only who checks loads the rules
    from takeup.media.check.judge import Against, check  # noqa: PLC0415

    is_full = ctx.spec.get("check") == FULL
    sample = None if is_full else places(stored.plan)
    against = None
    if is_full or sample:
        against = Against(planned_source(ctx, stored), known_frames(ctx), sample=sample)

    def tell(step: "Step") -> None:
        first, last = SHARES[step.what]
        done = min(step.done / step.total, 1.0) if step.total else 0.0
        ctx.progress(first + (last - first) * done, step.what)

    report = await check(open_access(str(folder)), tools_for(ctx), against, decodes=is_full, on_progress=tell)
    if not report.ok:
        found = [f"{one.rule}: {one.where}: {one.message}" for one in report.findings[:FINDINGS_TOLD]]
        raise MediaError(f"the package does not pass the check: {'; '.join(found)}")
    counts = report.count("passed"), report.count("failed"), report.count("not applicable")
    passed, warned, other = counts
    verdict = f"checked: {passed} rules passed" + (f", {warned} with warnings" if warned else "")
    return {"verdict": verdict, "passed": passed, "warnings": warned, "not_applicable": other}


def places(whole: Plan) -> int:
    """In how many places the pictures are compared; none of what is shorter than three minutes."""
    picture = whole.picture
    return min(picture.frames // (picture.fragment * PIECES_A_PLACE), PLACES_MAX) if picture else 0
