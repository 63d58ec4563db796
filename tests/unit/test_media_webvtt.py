"""WebVTT as strangers write it, and what is left of it."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeup.media import chapters, texts, webvtt
from takeup.media.errors import MediaError
from takeup.media.plan import Plan
from takeup.media.probe import Chapter
from takeup.media.webvtt import Cue

SHIFT_MS = texts.SHIFT_S * 1000


def plan_of(length_s: int) -> Plan:
    return Plan(2, "p", Fraction(0), Fraction(length_s), None, (), ())


def at(start_ms: int, end_ms: int, text: str = "a") -> Cue:
    """A cue as it comes from the tools."""
    return Cue(start_ms + SHIFT_MS, end_ms + SHIFT_MS, text)


def test_cues_are_read_with_names_settings_notes_and_any_line_ends():
    data = (
        "\ufeffWEBVTT - a title\r\nKind: captions\r\n\r\nNOTE 00:01.000 --> 00:02.000\r\n\r\n"
        "name\r\n01:02:03.004 --> 100:00:00.000 align:start line:0\r\none\r\ntwo\r\n\r\n\r\n"
        "00:05.000\t-->\t00:06.000\r\nthree"
    )
    assert webvtt.read(data.encode()) == [
        Cue(3_723_004, 360_000_000, "one\ntwo", "align:start line:0"),
        Cue(5000, 6000, "three"),
    ]


def test_empty_lines_within_a_text_are_no_end_if_they_go_on():
    words = "one\n\ntwo\n00:03.000 --> 00:04.000\n\n00:05.000 --> 00:06.000\nx\n"
    found = webvtt.read(f"WEBVTT\n\n00:01.000 --> 00:02.000\n{words}".encode(), goes_on=True)
    assert [(cue.start_ms, cue.text) for cue in found] == [
        (1000, "one\ntwo\n00:03.000 --> 00:04.000"),
        (5000, "x"),
    ]


def test_what_is_no_webvtt_is_refused():
    for data in (b"", b"WEBVTTX\n", b"1\n00:00:01,000 --> 00:00:02,000\na\n"):
        with pytest.raises(MediaError, match="WEBVTT"):
            webvtt.read(data)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("a --> b", "a --&gt; b"),
        ("<script>alert('x')</script>", "&lt;script&gt;alert('x')&lt;/script&gt;"),
        ("<b onclick=x>a</b>", "&lt;b onclick=x&gt;a"),
        ("<i>a <b>b</i> c", "<i>a <b>b c</b></i>"),
        ("a\x00b\x1b[31m\n\n\n  c  ", "a b [31m\nc"),
        ("<i></i> \n <b>", ""),
        ("AT&T &amp; I <3 you", "AT&amp;T &amp;amp; I &lt;3 you"),
        ("\u200f\u05e9\u05dc\u05dd\u00a0x", "\u200f\u05e9\u05dc\u05dd\u00a0x"),
    ],
)
def test_texts_are_escaped_and_lose_nothing_that_can_be_read(text, cleaned):
    assert webvtt.clean(text) == cleaned


def test_a_text_has_an_end():
    assert len(webvtt.clean("x" * 1_000_000)) == webvtt.CUE_CHARS_MAX
    assert webvtt.clean("a\n" * 1000).count("\n") == webvtt.LINES_MAX - 1


@given(st.lists(st.text(st.characters(codec="utf-8") | st.sampled_from("<>/&-biu\n\r\x00")), max_size=5))
def test_whatever_is_written_comes_back_as_it_was(found):
    cues = [
        Cue(n * 1000, n * 1000 + 500, cleaned)
        for n, text in enumerate(found)
        if (cleaned := webvtt.clean(text))
    ]
    assert webvtt.read(webvtt.write(cues)) == cues
    assert webvtt.read(webvtt.write(cues), goes_on=True) == cues


@given(st.binary(max_size=400))
def test_any_bytes_can_be_read(data):
    for cue in texts.tidy(webvtt.read(b"WEBVTT\n\n" + data, goes_on=True), plan_of(10)):
        assert "-->" not in cue.text


def test_cues_are_cut_to_the_length_and_put_in_order():
    found = [at(9000, 30_000), at(-500, 500), at(10_000, 11_000), at(-5, 0), at(3000, 4000), at(3000, 4000)]
    assert texts.tidy(found, plan_of(10)) == [Cue(0, 500, "a"), Cue(3000, 4000, "a"), Cue(9000, 10_000, "a")]


def test_a_text_without_an_end_stays_until_the_next_one_but_not_for_long():
    found = [at(1000, 1000), at(2000, 1500, "b"), at(30_000, 31_000, "c")]
    assert [(cue.start_ms, cue.end_ms) for cue in texts.tidy(found, plan_of(60))] == [
        (1000, 2000),
        (2000, 7000),
        (30_000, 31_000),
    ]


def test_drawings_and_crowds_are_left_out():
    drawing = "m 0 0 l 10 10 b -1.5 2 3 4 5 6"
    assert [
        cue.text for cue in texts.tidy([at(0, 9, drawing), at(1, 9, f"{drawing}\nm 5 s")], plan_of(9))
    ] == ["m 5 s"]
    crowd = [at(0, 5000, str(number)) for number in range(1000)] + [at(6000, 7000)]
    assert len(texts.tidy(crowd, plan_of(9))) == texts.AT_ONCE_MAX + 1
    many = [at(number, number + 1) for number in range(texts.CUES_MAX + 10)]
    assert len(texts.tidy(many, plan_of(1000))) == texts.CUES_MAX


def test_chapters_are_moved_cut_sorted_and_named():
    found = [
        Chapter(Fraction(8), Fraction(99), ""),
        Chapter(Fraction(0), Fraction(6), "a & <b>"),
        Chapter(Fraction(1), Fraction(2), "before"),
        Chapter(Fraction(7), Fraction(7), "nothing"),
    ]
    placed = chapters.on_time_line(found, Fraction(5), Fraction(10))
    assert placed == (
        Chapter(Fraction(0), Fraction(1), "a & <b>"),
        Chapter(Fraction(3), Fraction(10), "Chapter 2"),
    )
    assert [cue.text for cue in webvtt.read(chapters.to_vtt(placed))] == ["a &amp; &lt;b&gt;", "Chapter 2"]
