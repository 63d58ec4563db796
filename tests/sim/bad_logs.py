"""Histories that the log and the tables alone give away."""

from dataclasses import replace

from tests.sim.histories import SETTINGS, START, Log, at, bad


@bad("I1")
def claimed_while_held(log: Log):
    log.worker("w2")
    log.move(1, "claim")
    log.move(2, "claim", worker_id="w2")


@bad("I2")
def epoch_repeats(log: Log):
    log.move(1, "claim")
    log.move(2, "release")
    log.move(3, "claim", epoch=1)


@bad("I2")
def nonce_repeats(log: Log):
    log.move(1, "claim")
    log.move(2, "release")
    log.move(3, "claim", nonce_hash="nonce-1-1")


@bad("I2")
def epoch_moves_without_claim(log: Log):
    log.move(1, "cancel", epoch=1)
    log.job_event(1, "cancel", "cancelled")
    log.message("j1", "cancelled")


@bad("I3")
def completed_with_a_stale_token(log: Log):
    log.move(1, "claim")
    log.move(12, "expire")
    log.move(13, "claim")
    log.move(14, "complete", nonce_hash="nonce-1-1")
    log.finished()


@bad("I3")
def failed_by_another_worker(log: Log):
    log.worker("w2")
    log.move(1, "claim")
    log.move(2, "fail", worker_id="w2")


@bad("I3")
def released_after_it_expired(log: Log):
    log.move(1, "claim")
    log.move(12, "release")


@bad("I3")
def completed_without_a_claim(log: Log):
    log.move(2, "complete", nonce_hash="x", from_status="READY")
    log.finished()


@bad("I4")
def completed_twice(log: Log):
    log.move(1, "claim")
    log.move(2, "complete")
    log.move(3, "complete")
    log.finished()


@bad("I5")
def renewed_after_expiry(log: Log):
    log.move(1, "claim")
    log.move(12, "renew")


@bad("I5")
def renewed_to_a_shorter_lease(log: Log):
    log.move(1, "claim")
    log.move(2, "renew", lease_expires_at=at(10))


@bad("I5")
def renewed_for_too_long(log: Log):
    log.move(1, "claim")
    log.move(2, "renew", lease_expires_at=at(100))


@bad("I5")
def claimed_by_another_clock(log: Log):
    log.move(1, "claim", lease_expires_at=at(60))


@bad("I6")
def expired_too_early(log: Log):
    log.move(1, "claim")
    log.move(5, "renew")
    log.move(12, "expire")


@bad("I6")
def expired_another_epoch(log: Log):
    log.move(1, "claim")
    log.move(12, "expire", epoch=7)


@bad("I7")
def woken_after_failed(log: Log):
    log.tasks[1]["max_attempts"] = 1
    log.move(1, "claim")
    log.move(2, "give_up")
    log.move(3, "wake", from_status="FAILED")


@bad("I8")
def ready_before_its_prerequisite(log: Log):
    log.task(2, "NEW", stage="after")
    log.needs.append({"job_id": "j1", "stage": "after", "needs": "s", "per_segment": 0})
    log.move(1, "claim")
    log.move(2, "ready", 2)


@bad("I8")
def completed_by_the_orchestrator(log: Log):
    log.move(1, "claim")
    log.move(2, "complete", actor="orchestrator")
    log.finished()


@bad("I8")
def claimed_before_it_was_ready(log: Log):
    log.task(2, "NEW")
    log.worker("w2")
    log.move(1, "claim", 2, from_status="NEW", worker_id="w2")


@bad("I8")
def claimed_while_paused(log: Log):
    log.job_event(0.5, "pause", "pending", actor="operator")
    log.move(1, "claim")


@bad("I8")
def abandoned_without_a_failure(log: Log):
    log.task(2, "NEW")
    log.move(1, "abandon", 2)


@bad("I8")
def job_completed_with_live_tasks(log: Log):
    log.finished()


@bad("I9")
def claimed_too_often(log: Log):
    log.tasks[1]["max_attempts"] = 1
    log.move(1, "claim")
    log.move(2, "release")
    log.move(3, "claim", attempt=1)
    log.move(4, "release", attempt=1)


@bad("I9")
def given_up_too_early(log: Log):
    log.call(1, "claim", "invoke", "r1", worker="w1")
    held = [(1, 1, "nonce-1-1")]
    log.call(2, "fail", "invoke", "r2", worker="w1", held=held, retryable=[True], after_s=[None])
    log.move(1, "claim", request_id="r1")
    log.move(2, "give_up", request_id="r2")
    log.job_event(2, "fail", "failed")
    log.message("j1", "failed")


@bad("I9")
def buried_too_early(log: Log):
    log.move(1, "claim")
    log.move(12, "bury")
    log.job_event(12, "fail", "failed")
    log.message("j1", "failed")


@bad("I9")
def crash_not_counted(log: Log):
    log.move(1, "claim")
    log.move(12, "expire", attempt=0)


@bad("I10")
def claimed_during_back_off(log: Log):
    log.move(1, "claim")
    log.move(2, "fail")
    log.move(3, "claim", from_status="ERROR")


@bad("I10")
def woken_during_back_off(log: Log):
    log.move(1, "claim")
    log.move(2, "fail")
    log.move(3, "wake")


@bad("I10")
def back_off_not_stored(log: Log):
    held = [(1, 1, "nonce-1-1")]
    log.call(2, "fail", "invoke", "r2", worker="w1", held=held, retryable=[True], after_s=[None])
    log.move(1, "claim")
    log.move(2, "fail", request_id="r2", available_at=at(2))


@bad("I12")
def finished_without_a_message(log: Log):
    log.move(1, "claim")
    log.move(2, "complete")
    log.job_event(3, "complete", "completed")


@bad("I12")
def announced_without_an_end(log: Log):
    log.message("j1", "completed")


@bad("I12")
def message_never_sent(log: Log):
    log.move(1, "claim")
    log.move(2, "complete")
    log.job_event(3, "complete", "completed")
    log.message("j1", "completed", "WAITING")
    return replace(SETTINGS, quiet_from=START, ended_at=at(60))


@bad("I12")
def message_delivered_twice(log: Log):
    log.move(1, "claim")
    log.move(2, "complete")
    log.finished()
    log.message_event("deliver", "SENDING", "SENT")


@bad("I16")
def claimed_by_a_draining_worker(log: Log):
    log.worker_event(0.5, "drain", after="draining")
    log.move(1, "claim")


@bad("I16")
def claimed_by_a_quarantined_worker(log: Log):
    log.worker_event(0.5, "quarantine", actor="recovery")
    log.worker_rows["w1"]["quarantined_at"] = at(0.5)
    log.move(1, "claim")


@bad("I8")
def quarantined_by_a_worker(log: Log):
    log.worker_event(0.5, "quarantine")
    log.worker_rows["w1"]["quarantined_at"] = at(0.5)


@bad("I8")
def quarantined_twice(log: Log):
    for second in (0.5, 0.6):
        log.worker_event(second, "quarantine", actor="recovery")
    log.worker_rows["w1"]["quarantined_at"] = at(0.5)


@bad("I8")
def quarantined_as_if_it_had_not_left(log: Log):
    log.worker_event(0.4, "leave", after="offline")
    log.worker_event(0.5, "quarantine", actor="recovery")
    log.worker_rows["w1"]["quarantined_at"] = at(0.5)


@bad("I19")
def let_back_without_a_log(log: Log):
    log.worker_event(0.5, "quarantine", actor="recovery")


@bad("I16")
def claimed_beyond_its_slots(log: Log):
    log.task(2)
    log.move(1, "claim")
    log.move(2, "claim", 2)


@bad("I16")
def claimed_without_the_capability(log: Log):
    log.tasks[1]["lane_id"] = 2
    log.move(1, "claim")


@bad("I17")
def lost_though_it_lives(log: Log):
    log.call(40, "heartbeat", "invoke", "h1", worker="w1")
    log.call(40, "heartbeat", "ok", "h1", worker="w1", value="active")
    log.worker_event(50, "lose", after="offline")


@bad("I17")
def lost_as_soon_as_registered(log: Log):
    log.worker_event(10, "lose", after="offline")


@bad("I18")
def cancelled_after_completed(log: Log):
    log.move(1, "claim")
    log.move(2, "complete")
    log.finished()
    log.move(3, "cancel", from_status="DONE", to_status="DONE")


@bad("I18")
def job_cancelled_after_completed(log: Log):
    log.move(1, "claim")
    log.move(2, "complete")
    log.finished()
    log.job_event(31, "cancel", "completed")


@bad("I19")
def row_changed_without_a_log(log: Log):
    log.tasks[1]["final"] = {"status": "RUNNING", "lease_owner": "w1"}


@bad("I19")
def log_begins_in_the_middle(log: Log):
    log.tasks[2] = {**log.tasks[1], "id": 2}
    log.live[2] = (0, 0, None, None)
    log.move(1, "claim", 2)


@bad("I19")
def log_disagrees_with_itself(log: Log):
    log.move(1, "claim", from_status="NEW")


@bad("I23")
def secret_in_the_log(log: Log):
    log.move(1, "claim")
    log.move(2, "fail", reason="token=hunter2")
    return replace(SETTINGS, canaries=("hunter2",))


@bad("I24")
def recovered_too_late(log: Log):
    log.move(1, "claim")
    log.move(40, "expire")
    return replace(SETTINGS, quiet_from=at(20))


@bad("I24")
def never_recovered(log: Log):
    log.move(1, "claim")
    return replace(SETTINGS, quiet_from=at(20), ended_at=at(60))


@bad("I25")
def stuck_without_a_worker(log: Log):
    log.worker_event(0.5, "leave", after="offline")
    return replace(SETTINGS, quiet_from=at(20), ended_at=at(60))


@bad("I27")
def idle_worker_took_nothing(log: Log):
    log.move(30, "claim")
    return replace(SETTINGS, quiet_from=at(10))


@bad("I28")
def restarts_stop_recovery(log: Log):
    log.move(1, "claim")
    log.move(40, "expire")
    log.call(30, "restart", "ok", process="recovery")
    return replace(SETTINGS, quiet_from=at(20))


@bad("ORDER")
def urgent_work_waits(log: Log):
    log.job("j2", priority=9)
    log.task(2, job="j2")
    asked = [{"user": "u", "key": None, "spec_hash": "h", "priority": priority} for priority in (5, 9)]
    log.call(0, "submit", "invoke", "r0", process="client", jobs=asked)
    log.call(0, "submit", "ok", "r0", process="client", jobs=asked, value=["j1", "j2"])
    log.move(1, "claim")
    log.move(2, "release")
