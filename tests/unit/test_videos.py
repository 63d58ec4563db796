"""What strangers call things, as we call them."""

import pytest

from takeup.core.errors import InvalidInput
from takeup.core.videos import (
    SLUG,
    UNTITLED,
    check_slug,
    file_label,
    label,
    slug_from,
    slugs_to_try,
    subject_of,
    title_of,
    upload_of,
    video_of,
)

ID = "vid_" + "0a" * 12


@pytest.mark.parametrize(
    "slug",
    [
        "..", ".", "", "CON", "con", "Film", "fílm", "f\u0131lm", "x" * 300, "x", "-a", "a-", "a b", "a/b",
        "a\n", "lpt1",
    ],
)  # fmt: skip
def test_s45_what_no_slug_can_be(slug: str):
    with pytest.raises(InvalidInput, match="a slug has"):
        check_slug(slug)


@pytest.mark.parametrize("slug", ["ab", "a-film", "2001", "x" * 100])
def test_a_slug_that_somebody_chose(slug: str):
    assert check_slug(slug) == slug


@pytest.mark.parametrize(
    ("title", "slug"),
    [
        ("Über den Wolken!", "uber-den-wolken"),
        ("  2001: A Space Odyssey ", "2001-a-space-odyssey"),
        ("movie.mp4", "movie-mp4"),
        ("映画", "video"),
        ("X", "video-x"),
        ("con", "video-con"),
        ("../../etc/passwd", "etc-passwd"),
        ("", "video"),
    ],
)
def test_a_title_makes_a_slug(title: str, slug: str):
    assert slug_from(title) == slug
    assert all(check_slug(one) for one in slugs_to_try(title, ID))


def test_the_last_slug_to_try_is_nobody_elses():
    first, second, *_, last = slugs_to_try("y" * 500, ID)
    assert (len(first), second) == (60, f"{first}-2")
    assert last.endswith(ID.removeprefix("vid_"))
    assert SLUG.match(last)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("../../x", "x"),
        ("C:\\films\\x.mp4", "x.mp4"),
        ("a\x00b\nc.mp4", "a b c.mp4"),
        ("\u202egpm.exe", "gpm.exe"),
        ("-y.mp4", "-y.mp4"),
        ("http:x.mp4", "http:x.mp4"),
        ("%03d.png", "%03d.png"),
        ("x" * 4096, "x" * 200),
        ("\ud800.mp4", ".mp4"),
    ],
)
def test_s44_the_name_of_a_file_is_a_label(name: str, shown: str):
    assert file_label(name) == shown
    assert label(shown) == shown


@pytest.mark.parametrize(
    ("title", "name", "shown"),
    [
        ("A\tfilm", "x.mp4", "A film"),
        (None, "My film.mp4", "My film"),
        ("\x00", "", UNTITLED),
        ("", ".mp4", ".mp4"),
    ],
)
def test_a_title_is_given_or_made(title: str | None, name: str, shown: str):
    assert title_of(title, name) == shown


def test_a_video_its_upload_and_its_subject_know_each_other():
    assert video_of(subject_of(ID)) == ID
    assert video_of("stream:x") is video_of(None) is None
    assert upload_of(ID) == "upl_" + "0a" * 12
