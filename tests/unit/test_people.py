"""What a name and a password must be."""

import pytest

from takeup.core.errors import InvalidInput
from takeup.core.people import WeakPassword, check_name, check_password, name_key

GOOD = ("seven green kettles", "Ünter den Linden 12", "x9$kQ2!mvB7z", "a" * 100 + "bcde")
WEAK = {
    "": "12 to 256",
    "elevenchars": "12 to 256",
    "x" * 257: "12 to 256",
    "abababababab": "tried first",
    "123456789012": "tried first",
    "Password1234": "tried first",
    "passwordpassword": "tried first",
    "!!Administrator!!": "tried first",
    "ChangeMe-2026": "tried first",
    "Alice.Alice.2026": "more than the name",
    "seven green \x00 kettles": "cannot be typed",
    "seven green \ud800 kettles": "cannot be typed",
}


@pytest.mark.parametrize("password", GOOD)
def test_good_passwords_are_taken(password: str):
    check_password("alice", password)


@pytest.mark.parametrize("password", WEAK, ids=ascii)
def test_weak_passwords_are_refused_and_not_repeated(password: str):
    with pytest.raises(WeakPassword, match=WEAK[password]) as caught:
        check_password("ALICE", password)
    assert not password or password not in f"{caught.value} {caught.value.help}"


def test_a_short_name_may_stand_in_a_password():
    check_password("al", "al9407-2217-al")


@pytest.mark.parametrize(
    "name", ["", " ann", "ann ", "a\nb", "a\x00", "\ud800", "x" * 65, "a\u200bb"], ids=ascii
)
def test_nobody_is_called_so(name: str):
    with pytest.raises(InvalidInput, match="printable text of 1 to 64"):
        check_name(name)


def test_names_are_the_same_in_any_case_and_coding():
    assert name_key("Zoë") == name_key("ZOE\u0308") == name_key("zoë")
    assert name_key("Straße") == name_key("STRASSE")
    assert name_key("ann") != name_key("anna")
