"""Where a package is compared with its source: everywhere, or in places that are spread over it."""

from array import array
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeup.media.check.places import AROUND, FRAMES_A_PLACE, places
from takeup.media.check.tracks import Piece, Track
from takeup.media.index import Index


def track(count: int) -> Track:
    made = Track("low", "video", 25)
    made.pieces = [Piece(f"{number}.m4s", None) for number in range(count)]
    return made


@given(st.integers(1, 500), st.integers(1, 50))
def test_samples_are_different_pieces_in_order_from_all_over(count: int, sample: int):
    found = [piece.address for place in places(track(count), None, sample) for piece in place.pieces]
    numbers = [int(address.removesuffix(".m4s")) for address in found]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == min(count, sample)
    if sample < count:
        assert (
            max(b - a for a, b in zip([-1, *numbers], [*numbers, count], strict=True)) <= count // sample + 1
        )


def long_track(pieces: int, frames: int) -> Track:
    """Pieces of this many frames, 25 a second."""
    made = track(pieces)
    for number, piece in enumerate(made.pieces):
        piece.start, piece.count, piece.duration = number * frames, frames, frames
    made.shown = array("q", range(pieces * frames))
    return made


@pytest.mark.parametrize(
    ("key", "skip"), [(150, 3), (200, 53), (267, 120), (268, 0), (100, 0), (300, 0), (9000, 0)]
)
def test_what_is_compared_of_a_piece_begins_just_after_a_keyframe_of_the_source(key: int, skip: int):
    """Of the second piece, frames 150 to 299; a key that leaves too little of it is of no use."""
    times = array("q", (frame * 512 + 77 for frame in range(10_000)))
    index = Index(Fraction(1, 25 * 512), times, array("q", [77, key * 512 + 77]), times[-1] + 512)
    (place,) = places(long_track(3, 150), index, 1)
    assert (place.pieces[0].address, place.count) == ("1.m4s", FRAMES_A_PLACE)
    assert (AROUND, place.skip) == (2, skip)
