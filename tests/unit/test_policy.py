"""RetryPolicy delays, leases, priorities and durations, with their bounds."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from takeup.core.errors import InvalidInput
from takeup.core.policy import (
    DELAY_S_MAX,
    RetryPolicy,
    check_lease_s,
    check_priority,
    parse_duration,
    renew_every_s,
    trusted_until,
)

retries = st.builds(
    RetryPolicy,
    kind=st.sampled_from(["exponential", "fixed"]),
    max_attempts=st.integers(1, 100),
    initial_s=st.floats(0, 10_000),
    multiplier=st.floats(1, 100),
    cap_s=st.floats(0, DELAY_S_MAX),
    jitter=st.floats(0, 1),
)


@given(retries, st.integers(1, 200))
def test_delays_never_shrink_and_never_pass_the_cap(retry: RetryPolicy, attempt: int):
    delay, later = retry.delay_s(attempt), retry.delay_s(attempt + 1)
    assert 0 <= delay <= later <= retry.cap_s


@given(retries, st.integers(0, 10**6), st.floats(0, 1, exclude_max=True))
def test_jitter_only_shortens_and_only_by_its_share(retry: RetryPolicy, attempt: int, luck: float):
    full, short = retry.delay_s(attempt), retry.delay_s(attempt, luck)
    assert full * (1 - retry.jitter) - 1e-9 <= short <= full


@given(retries)
@example(RetryPolicy(initial_s=5e-324, cap_s=1.0))
def test_no_attempt_number_overflows(retry: RetryPolicy):
    assert math.isfinite(retry.delay_s(10**6))
    assert retry.delay_s(10**6) <= retry.cap_s


def test_the_default_doubles_up_to_its_cap():
    retry = RetryPolicy(initial_s=10.0, multiplier=2.0, cap_s=300.0)
    assert [retry.delay_s(n) for n in range(1, 8)] == [10, 20, 40, 80, 160, 300, 300]


def test_a_fixed_delay_and_none():
    assert [RetryPolicy("fixed", initial_s=7).delay_s(n) for n in (1, 5, 99)] == [7, 7, 7]
    assert not RetryPolicy("none", max_attempts=5).allows(1)
    assert [RetryPolicy(max_attempts=3).allows(n) for n in (1, 2, 3, 4)] == [True, True, False, False]


@given(retries)
def test_a_policy_survives_being_stored(retry: RetryPolicy):
    assert RetryPolicy(**retry.as_json()) == retry


@pytest.mark.parametrize(
    "options",
    [
        {"kind": "never"},
        {"max_attempts": 0},
        {"max_attempts": 101},
        {"initial_s": -1},
        {"initial_s": math.nan},
        {"cap_s": math.inf},
        {"cap_s": DELAY_S_MAX + 1},
        {"multiplier": 0.5},
        {"multiplier": 101},
        {"multiplier": math.nan},
        {"jitter": -0.1},
        {"jitter": 1.1},
    ],
)
def test_policies_that_cannot_be_kept(options: dict):
    with pytest.raises(InvalidInput):
        RetryPolicy(**options)


@pytest.mark.parametrize("lease_s", [-1, 0, 0.5, 86_401, math.nan, math.inf, "60", None, True])
def test_leases_that_cannot_be_kept(lease_s: object):
    with pytest.raises(InvalidInput):
        check_lease_s(lease_s)


def test_leases_that_can():
    assert [check_lease_s(s) for s in (1, 60, 86_400.0)] == [1.0, 60.0, 86_400.0]


@pytest.mark.parametrize("priority", [-1, 11, 5.0, "5", None, True])
def test_priorities_out_of_range(priority: object):
    with pytest.raises(InvalidInput, match="0 to 10"):
        check_priority(priority)


def test_priorities_in_range():
    assert [check_priority(p) for p in range(11)] == list(range(11))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("15m", 900),
        ("2h", 7200),
        ("1d", 86_400),
        ("250ms", 0.25),
        ("1.5m", 90),
        ("7", 7),
        (3, 3),
        (0.5, 0.5),
    ],
)
def test_durations(text: str | float, seconds: float):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "five", "5 minutes", "1h30m", "--5s"])
def test_what_is_no_duration(text: str):
    with pytest.raises(InvalidInput, match="90s, 15m or 2h"):
        parse_duration(text)


def test_a_holder_has_three_chances_and_never_trusts_longer_than_the_lease():
    assert renew_every_s(60) == 20
    assert trusted_until(100.0, 60.0, 10.0) == 150.0
    assert trusted_until(100.0, 5.0, 10.0) == 100.0
