"""Files that the server fetches: asked for, taken under a lease, ended, and forgotten after a while."""

import json
from collections.abc import Mapping, Sequence

from takeup.core.errors import NotFound
from takeup.core.ids import canonical_json
from takeup.core.pulls import PULL, Beat, Pull, PullEnd
from takeup.core.repeats import Asked
from takeup.core.videos import About
from takeup.store.op import Op, Row, Rows, Together, query
from takeup.store.ops.read import page_size
from takeup.store.ops.uploads import Quota
from takeup.store.ops.videos import BEHIND_ALL

KEPT_S = 7 * 86_400.0
ADVICE = "`GET /api/pulls` lists those there are; what is over, and has no key, is forgotten after a week."


def add(
    pull_id: str, user_id: str, url: str, about: About, count_max: int, asked: Asked | None = None
) -> Op[Pull]:
    """Note a file to fetch, if its user may have one more; or find what the same call made before."""
    yield query("hold_uploads")
    known = (yield from asked_before(asked)) if asked else None
    if known is not None:
        return known
    rows = yield query("live_pulls_of_user", user_id=user_id)
    if rows[0]["pull_count"] >= count_max:
        raise Quota(
            f"{rows[0]['pull_count']} files are being pulled; at most {count_max} are at a time",
            advice="Wait for one, or cancel it (`DELETE /api/pulls/{id}`).",
        )
    text = canonical_json(about._asdict(), what="metadata")
    yield query(
        "add_pull",
        id=pull_id,
        user_id=user_id,
        url=url,
        about=text,
        request_hash=asked.request_hash if asked else None,
    )
    return (yield from find(pull_id, user_id))


def asked_before(what: Asked) -> Op[Pull | None]:
    """The pull that a call with this key made."""
    rows = yield query("pull_by_id", id=PULL + what.tail)
    if not rows:
        return None
    what.check(rows[0]["request_hash"], rows[0]["id"])
    return pull_from(rows[0])


def find(pull_id: str, user_id: str) -> Op[Pull]:
    """A pull of this caller; that of another is none."""
    rows = yield query("pull_by_id", id=pull_id)
    if not rows or rows[0]["user_id"] != user_id:
        raise NotFound(f"no pull has the id {pull_id!r}", advice=ADVICE)
    return pull_from(rows[0])


def among(pull_ids: Sequence[str]) -> Op[dict[str, Pull]]:
    """How these stand, whosever they are; those that are gone are left out."""
    rows = yield query("pulls_among", g=[(pull_id,) for pull_id in pull_ids])
    return {row["id"]: pull_from(row) for row in rows}


def page(user_id: str, before: Pull | None, limit_count: int) -> Op[list[Pull]]:
    """A page of a caller's pulls, newest first; `before` is the last one of the page before."""
    rows = yield query(
        "newest_pulls",
        user_id=user_id,
        before_id=before.id if before else "",
        before_at=before.created_at if before else BEHIND_ALL,
        limit_count=page_size(limit_count),
    )
    return [pull_from(row) for row in rows]


def next_user(share: int, held: Mapping[str, int]) -> Op[str | None]:
    """Whose turn it is, if so many are `held` here by each and nobody may have more than his share."""
    due = yield from _due(1, share, held)
    return due[0]["user_id"] if due else None


def has_due(share: int, held: Mapping[str, int]) -> Op[bool]:
    """Whether there is anything to take; asked again and again, mostly for nothing, so without a lock."""
    return bool((yield query("pulls_left"))) or bool((yield from _due(1, share, held)))


def take(limit_count: int, lease_s: float, share: int, held: Mapping[str, int]) -> Op[list[Pull]]:
    """Take what is due, of users in turn, and what was left by somebody who is gone."""
    yield query("overdue_pulls")
    due = yield from _due(limit_count, share, held)
    if not due:
        return []
    rows = yield query("take_pulls", g=[(row["id"],) for row in due], lease_s=lease_s)
    yield query("pass_turn", g=[(user_id,) for user_id in sorted({row["user_id"] for row in due})])
    return sorted(map(pull_from, rows), key=lambda pull: pull.available_at)


def _due(limit_count: int, share: int, held: Mapping[str, int]) -> Op[Rows]:
    return (yield query("due_pulls", limit_count=limit_count, share=share, h=sorted(held.items())))


def beat(pull_id: str, attempt: int, now: Beat, lease_s: float) -> Op[bool]:
    """Hold it on and say how far it is; False if it is somebody else's by now, or was cancelled."""
    rows = yield query("beat_pull", id=pull_id, attempt=attempt, lease_s=lease_s, **now._asdict())
    return bool(rows)


def end(pull_id: str, attempt: int, how: PullEnd) -> Op[bool]:
    """Note how an attempt ended; whether it was still his who says so."""
    return bool((yield query("end_pull", id=pull_id, attempt=attempt, **how._asdict())))


def has_waited(pull_id: str, wait_s: float) -> Op[bool]:
    """Whether it was asked for so long ago."""
    return bool((yield query("pull_has_waited", id=pull_id, wait_s=wait_s)))


def cancel(pull_id: str, user_id: str) -> Op[bool]:
    """Fetch no more of it; whether it was not over: what became a video already is no more cancelled."""
    yield Together()
    pull = yield from find(pull_id, user_id)
    yield query("pull_for_change", id=pull_id)
    if (yield query("video_request", id=pull.video_id)):
        return False
    return bool((yield query("cancel_pull", id=pull_id)))


def forget(older_than_s: float, limit_count: int) -> Op[int]:
    """Remove what is over for longer than this, and was asked for without a key."""
    old = yield query("old_pulls", older_than_s=older_than_s, limit_count=limit_count)
    if old:
        yield query("drop_pulls", g=[(row["id"],) for row in old])
    return len(old)


def pull_from(row: Row) -> Pull:
    """A pull from its row."""
    return Pull(
        id=row["id"],
        user_id=row["user_id"],
        url=row["url"],
        about=About(**json.loads(row["about"])),
        status=row["status"],
        attempt=row["attempt"],
        failures=row["failures"],
        received_bytes=row["received_bytes"],
        length_bytes=row["length_bytes"],
        validator=row["validator"],
        error=row["error"],
        created_at=row["created_at"],
        available_at=row["available_at"],
        finished_at=row["finished_at"],
    )
