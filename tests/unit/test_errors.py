"""Every error knows whether to try again, its HTTP status, its code and what the reader can do."""

import pytest

from takeup.core import errors
from takeup.core.errors import StoreUnavailable, TakeupError


def tree(kind: type[TakeupError]) -> list[type[TakeupError]]:
    return [kind, *(found for child in kind.__subclasses__() for found in tree(child))]


ALL = [kind for kind in tree(TakeupError) if kind.__module__ == errors.__name__]


@pytest.mark.parametrize("kind", ALL)
def test_an_error_says_what_to_do(kind: type[TakeupError]):
    error = kind("it happened")
    assert str(error) == "it happened"
    assert error.help.endswith(".")
    assert len(error.help) > 15
    assert 400 <= error.http_status < 600
    assert kind.__doc__


def test_leaves_have_a_help_of_their_own():
    own = [kind.help for kind in ALL if "help" in vars(kind)]
    assert len(set(own)) == len(own)
    for kind in ALL:
        if not kind.__subclasses__() and kind is not StoreUnavailable:
            assert "help" in vars(kind), f"{kind.__name__} only repeats what its parent says"


def test_codes_are_stable_words():
    codes = {kind("").code for kind in ALL}
    assert len(codes) == len(ALL)
    assert errors.IdempotencyMismatch("").code == "idempotency_mismatch"
    assert errors.NotFound("").code == "not_found"
    assert all(code.replace("_", "").isalpha() and code.islower() for code in codes)


def test_only_an_unreachable_store_is_worth_repeating():
    assert {kind for kind in ALL if kind.retryable} == {StoreUnavailable, errors.OutcomeUnknown}


def test_statuses_follow_the_kind_of_fault():
    assert {kind.http_status for kind in tree(errors.Conflict)} == {409}
    assert errors.InvalidInput.http_status == 422
    assert errors.NotFound.http_status == errors.UnknownPipeline.http_status == 404
    assert errors.WorkerRefused.http_status == 403
    assert StoreUnavailable.http_status == 503
