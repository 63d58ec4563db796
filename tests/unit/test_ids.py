"""Ids, tokens and the one text of a JSON value."""

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeup.core.errors import InvalidSpec
from takeup.core.ids import (
    SPEC_BYTES_MAX,
    SPEC_DEPTH_MAX,
    canonical_json,
    digest,
    lease_nonces,
    new_id,
    nonce_hash,
)

texts = st.text(st.characters(exclude_characters="\x00", exclude_categories=("Cs",)), max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_a_value_comes_back_from_its_text(value: Any):
    assert json.loads(canonical_json(value)) == value


@given(st.dictionaries(texts, st.integers(), max_size=8))
def test_the_order_of_keys_does_not_matter(value: dict[str, int]):
    assert canonical_json(dict(reversed(value.items()))) == canonical_json(value)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"a": {1, 2}}, "not JSON"),
        ({"a": b"bytes"}, "not JSON"),
        ({"a": object()}, "not JSON"),
        ({("a", 1): 1}, "not JSON"),
        ({"a": float("nan")}, "not JSON"),
        ({"a": float("inf")}, "not JSON"),
        ({"a": "x" * SPEC_BYTES_MAX}, "at most 1000000"),
        ({"a": "\x00"}, "NUL"),
        ({"\x00": 1}, "NUL"),
        ({"a": ["\ud800"]}, "surrogate"),
        (nested(SPEC_DEPTH_MAX + 1), "deeper than 64"),
        (nested(100_000), "deeper than 64"),
        ([0] * (SPEC_BYTES_MAX + 1), "values"),
    ],
    ids=lambda value: str(value)[:20] if isinstance(value, str) else "",
)
def test_what_is_not_plain_bounded_json(value: Any, says: str):
    with pytest.raises(InvalidSpec, match=says):
        canonical_json(value)


def test_a_value_that_holds_itself_is_too_deep():
    value: list[Any] = []
    value.append(value)
    with pytest.raises(InvalidSpec):
        canonical_json(value)


def test_just_within_the_bounds():
    assert canonical_json(nested(SPEC_DEPTH_MAX - 1))
    assert len(canonical_json({"a": "x" * (SPEC_BYTES_MAX - 8)})) == SPEC_BYTES_MAX


def test_the_message_names_what_it_is_about():
    with pytest.raises(InvalidSpec, match="the result is not JSON"):
        canonical_json({1, 2}, what="result")


def test_nonces_repeat_with_their_secret_and_with_nothing_else():
    first = lease_nonces("s" * 32, 5)
    assert lease_nonces("s" * 32, 5) == first
    assert lease_nonces("s" * 32, 3) == first[:3], "a smaller claim gives the same nonces"
    assert len(set(first)) == 5
    assert not set(first) & set(lease_nonces("t" * 32, 5))
    assert {len(nonce) for nonce in first} == {32}


def test_the_store_sees_only_a_hash():
    nonce = lease_nonces("s" * 32, 1)[0]
    assert nonce not in nonce_hash(nonce)
    assert len({nonce_hash(n) for n in lease_nonces("s" * 32, 100)}) == 100


def test_ids_say_what_they_name_and_come_from_the_given_chance():
    assert new_id("job", random.Random(1).randbytes) == new_id("job", random.Random(1).randbytes)
    one, two = (new_id("job", random.Random(seed).randbytes) for seed in (1, 2))
    assert one.startswith("job_")
    assert len(one) == 4 + 24
    assert one != two


def test_a_digest_is_sha256():
    assert digest("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
