"""Spans of known bytes, against a set of single bytes."""

import random
from itertools import pairwise

from takeup.core.spans import Spans

LENGTH = 40


def test_they_are_what_a_set_of_bytes_is():
    luck = random.Random(7)
    for _ in range(300):
        spans, known = Spans(), set[int]()
        for _ in range(luck.randint(1, 12)):
            start, end = sorted((luck.randint(0, LENGTH), luck.randint(0, LENGTH)))
            spans.add(start, end)
            known |= set(range(start, end))
            assert {byte for begin, after in spans for byte in range(begin, after)} == known
            assert spans.total == len(known)
            assert all(after < begin for (_, after), (begin, _) in pairwise(spans)), "none touch"
            start, end = sorted((luck.randint(0, LENGTH), luck.randint(0, LENGTH)))
            missing = [byte for begin, after in spans.missing(start, end) for byte in range(begin, after)]
            assert missing == [byte for byte in range(start, end) if byte not in known]
            around = spans.around(start, end)
            assert around == [one for one in spans if one[0] < end and start < one[1]]


def test_of_nothing_nothing_is_missing():
    assert Spans().missing(5, 5) == []
    assert Spans().missing(5, 7) == [(5, 7)]
    assert Spans([(0, 4), (4, 9)]).around(0, 1) == [(0, 9)]
