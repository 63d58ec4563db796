"""From the log to alerts: read behind a cursor and weighed, in the transaction that moves the cursor."""

from collections.abc import Sequence

from takeup.core.alerts import (
    ANY,
    FAILED,
    PATTERN_S,
    Alert,
    Limit,
    Limits,
    alert_of,
    pattern_of,
)
from takeup.core.webhooks import News, clipped, news_id
from takeup.store.op import Op, Row, query
from takeup.telemetry.redact import presentable

NAME = "alerts"
WINDOW_S = 30.0
"""So long a row with a smaller number than the last may still appear: on PostgreSQL a number is drawn before
the commit, and no transaction of ours lasts longer."""
LIMITS_KEPT_S = 7 * 86_400.0


def has_news(limit_count: int = 1) -> Op[bool]:
    """Whether there is anything to look at; changes nothing."""
    cursor = yield query("alert_cursor", name=NAME)
    if not cursor:
        return True
    return bool((yield query("alert_events", after=cursor[0]["seq"], limit_count=limit_count)))


def read(limit_count: int, limit_s: float) -> Op[tuple[int, list[News]]]:
    """Look at what is new in the log; how many rows that were, and the alerts that are to be told."""
    cursor = yield query("alert_cursor_for_change", name=NAME)
    if not cursor:
        yield query("add_alert_cursor", name=NAME, window_s=WINDOW_S)
        cursor = yield query("alert_cursor_for_change", name=NAME)
    rows = yield query("alert_events", after=cursor[0]["seq"], limit_count=limit_count)
    if not rows:
        return 0, []
    alerts: list[tuple[Alert, str]] = []
    failures = 0
    for row in rows:
        is_failure = row["noun"] == "job"
        failures += is_failure
        alert = (yield from _pattern(row)) if is_failure else alert_of(row)
        if alert is not None:
            alerts.append((alert, f"row {row['seq']}"))
    news = yield from raise_alerts(alerts, limit_s, failures)
    yield query("see_alerts", g=[(row["seq"],) for row in rows])
    yield query("move_alert_cursor", name=NAME, window_s=WINDOW_S)
    yield query("forget_seen", name=NAME)
    return len(rows), news


def raise_alerts(alerts: Sequence[tuple[Alert, str]], limit_s: float, failures: int = 0) -> Op[list[News]]:
    """Those of the alerts that are to be told, with what was kept back; each comes with its source."""
    kinds = {alert.type for alert, _ in alerts} | ({FAILED} if failures else set())
    if not kinds:
        return []
    keys = {(kind, ANY) for kind in kinds} | {(alert.type, alert.subject) for alert, _ in alerts}
    rows = yield query("alert_limits", g=sorted(keys))
    clock = yield query("clock")
    limits = Limits((Limit(**row) for row in rows), clock[0]["now_at"], limit_s=limit_s)
    for _ in range(failures):
        limits.count(FAILED)
    told = [
        (alert, source, kept_back)
        for alert, source in alerts
        if (kept_back := limits.admit(alert)) is not None
    ]
    yield query(
        "set_alert_limits",
        g=[(one.type, one.subject, one.began_at, one.sent, one.suppressed, one.total) for one in limits.all],
    )
    yield query("forget_alert_limits", older_than_s=max(LIMITS_KEPT_S, limit_s))
    return [
        News(
            news_id(alert.type, alert.subject, source, alert.happened_at),
            alert.type,
            alert.happened_at,
            {**{name: _shown(value) for name, value in alert.data.items()}, **kept_back},
        )
        for alert, source, kept_back in told
    ]


def totals() -> Op[dict[str, int]]:
    """How often each type of alert came up, told or not, and how many jobs failed."""
    rows = yield query("alert_totals")
    return {row["type"]: row["total"] for row in rows}


def _pattern(row: Row) -> Op[Alert | None]:
    if row["subject"] is None:
        return None
    counts = yield query(
        "failures_of_subject", subject=row["subject"], pipeline=row["pipeline"], within_s=PATTERN_S
    )
    return pattern_of(row, counts[0]["failure_count"])


def _shown(value: object) -> object:
    return clipped(presentable(value)) if isinstance(value, str) else value
