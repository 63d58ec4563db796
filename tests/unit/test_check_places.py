"""Where a package is compared with its source: everywhere, or in places that are spread over it."""

from hypothesis import given
from hypothesis import strategies as st

from takeup.media.check.compare import runs
from takeup.media.check.tracks import Piece, Track


def track(count: int) -> Track:
    made = Track("low", "video", 25)
    made.pieces = [Piece(f"{number}.m4s", None) for number in range(count)]
    return made


@given(st.integers(1, 500), st.integers(1, 50))
def test_samples_are_different_pieces_in_order_from_all_over(count: int, sample: int):
    found = [piece.address for run in runs(track(count), sample) for piece in run]
    numbers = [int(address.removesuffix(".m4s")) for address in found]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == min(count, sample)
    if sample < count:
        assert (
            max(b - a for a, b in zip([-1, *numbers], [*numbers, count], strict=True)) <= count // sample + 1
        )
