"""Names as people read them: two different names never look the same."""

import unicodedata

import pytest

from app.core.readable import backticked, quoted_name, quoted_text, readable, visible
from app.core.spelling import printable

PLAIN = (
    "User:shop", "orders", "payments.v2_all-3", "*", "10.0.0.0/8", "2001:db8::1", "User:DOMAIN\\bob",
    "User:bob@corp.io", "User:Müller", "User:Đặng", "User:Иван", "платежи-2026", "User:Ελλάδα", "User:田中", "たなか",
    "Group:\U0001f680-team", "カタカナ", "日本語abc", "한글", "नमस्ते", "ด้วยคำ", "User:אבג",
)  # fmt: skip
SHOWN = {
    "User:shop ": '"User:shop "',
    " orders": '" orders"',
    "a b": '"a b"',
    "a  b": r'"a\x20\x20b"',
    "a   ": r'"a\x20\x20\x20"',
    "": '""',
    "User:CN=a,OU=b": '"User:CN=a,OU=b"',
    "topic(1)": '"topic(1)"',
    'say "x"': r'"say \"x\""',
    "a\tb": r'"a\tb"',
    "a\x1b[2J\n": r'"a\u001b[2J\n"',
    "a\x7f": r'"a\x7f"',
    "a\u200bb": r'"a\u200bb"',  # zero width
    "a\u00adb": r'"a\xadb"',  # soft hyphen
    "\ufefforders": r'"\ufefforders"',  # byte order mark
    "a\u00a0b": r'"a\xa0b"',  # no-break space
    "a\u2003b": r'"a\u2003b"',  # em space
    "a\u3000b": r'"a\u3000b"',  # ideographic space
    "a\u202eb": r'"a\u202eb"',  # bidirectional
    "a\u2066b": r'"a\u2066b"',
    "a\u2028b": r'"a\u2028b"',
    "a\U000e0041": r'"a\U000e0041"',  # tag
    "a\ufe0f": r'"a\ufe0f"',  # variation selector
    "a\U000e0100": r'"a\U000e0100"',
    "a\u034fb": r'"a\u034fb"',  # joiner
    "\u3164": r'"\u3164"',  # filler of Hangul
    "a\u115fb": r'"a\u115fb"',
    "a\u2800b": r'"a\u2800b"',  # blank of Braille
    "\ud800": r'"\ud800"',
    "User:\u0430lice": r'"User:\u0430lice"',  # Cyrillic in Latin
    "User:\u0418\u0432a\u043d": r'"User:\u0418\u0432a\u043d"',  # Latin in Cyrillic
    "\u043erders": r'"\u043erders"',
    "orders-\u0440\u0430\u0443": r'"orders-\u0440\u0430\u0443"',  # all of the word looks Latin
    "\u03bf\u03c1\u03b1": r'"\u03bf\u03c1\u03b1"',
    "\u0570\u0578\u0578\u057d": r'"\u0570\u0578\u0578\u057d"',
    "\uff4frders": r'"\uff4frders"',  # full width
    "\U0001d428rders": r'"\U0001d428rders"',  # mathematical bold
    "of\ufb01ce": r'"of\ufb01ce"',  # ligature
    "lo\u0261": r'"lo\u0261"',  # phonetic
    "Mu\u0308ller": r'"Mu\u0308ller"',  # not NFC
    "\u212a": r'"\u212a"',  # Kelvin
    "User:\u2217": r'"User:\u2217"',  # almost an asterisk
    "User\uff1aa": r'"User\uff1aa"',  # almost a colon
    "a\u2013b": r'"a\u2013b"',  # almost a hyphen
    "a\u2024b": r'"a\u2024b"',  # almost a dot
    "v\u0662": r'"v\u0662"',  # almost a dot, or a digit
    "\u0301a": r'"\u0301a"',  # a mark on the quote
    "i\u0307": r'"i\u0307"',  # a dot on a dot
    "x\u0338": r'"x\u0338"',
    "\u0915\u0301": r'"\u0915\u0301"',  # a mark of another script
    "\u00e9\u0301": r'"\xe9\u0301"',  # a mark on the same mark
    "User:\u05d01": r'"User:\u05d01"',  # reads as the next one, from right to left
}  # fmt: skip


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_name_stays_as_it_is(name: str) -> None:
    assert unicodedata.is_normalized("NFC", name)
    assert readable(name) == name
    assert backticked(name) == f"`{name}`"


@pytest.mark.parametrize("name", SHOWN)
def test_what_could_be_taken_for_something_else_is_in_quotes_and_escaped(name: str) -> None:
    assert readable(name) == quoted_name(name) == SHOWN[name]


def test_no_two_of_them_read_alike_even_where_blanks_are_put_together() -> None:
    names = [
        *PLAIN,
        *SHOWN,
        "User:alice",
        "User:\u0418\u0432\u0430\u043d",
        "log",
        "User:1\u05d0",
        "a-b",
        "a.b",
        "User:*",
    ]
    shown = {" ".join(readable(each).split()) for each in names}
    assert len(shown) == len({*names})


def test_all_that_is_neither_ascii_nor_a_letter_nor_a_pictograph_is_escaped() -> None:
    for code in range(0x80, 0x30000):
        character = chr(code)
        if unicodedata.category(character)[0] not in "LM" and not 0x1F300 <= code < 0x1FC00:
            assert readable(f"a{character}b").isascii(), hex(code)


def test_nothing_unseen_is_left() -> None:
    # Of Default_Ignorable_Code_Point, and what is not printable.
    ignorable = [0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), *range(0x200B, 0x2010)]
    ignorable += [*range(0x202A, 0x202F), *range(0x2060, 0x2070), 0x3164, *range(0xFE00, 0xFE10), 0xFEFF, 0xFFA0]
    ignorable += [*range(0x1D173, 0x1D17B), *range(0xE0000, 0xE0FFF, 7)]
    for code in ignorable:
        for shown in (
            readable(f"a{chr(code)}"),
            visible(f"a{chr(code)}"),
            quoted_text(chr(code)),
            backticked(chr(code)),
        ):
            assert shown.isascii(), hex(code)


def test_a_name_that_holds_the_text_of_an_escape_is_not_taken_for_an_escaped_one() -> None:
    for odd in ("a  b", "a\u200bb", "a\nb", "\u043erders", "a\U000e0100b"):
        literal = readable(odd).strip('"')
        shown = {form(name).strip("`") for form in (readable, backticked) for name in (odd, literal)}
        assert shown == {f'"{literal}"', literal}


def test_a_name_in_a_sentence_is_in_backticks_and_in_quotes_only_if_its_ends_can_not_be_seen() -> None:
    assert backticked("User:a,User:b") == "`User:a,User:b`"
    assert backticked("User:shop ") == '`"User:shop "`'
    assert backticked("a  b\u200b") == r'`"a\x20\x20b\u200b"`'
    assert backticked("a`b") == '`"a`b"`'
    assert backticked("") == '`""`'
    assert backticked("x" * 300, 100) == f"`{'x' * 100}...`"


def test_long_names_are_cut_and_read_at_once() -> None:
    assert readable("x" * 300, 100) == "x" * 100 + "..."
    assert readable("a b" * 100, 3) == '"a b"...'
    assert readable("\u0430" * 1_000_000, 5) == r'"\u0430\u0430\u0430\u0430\u0430"...'


def test_a_comment_keeps_its_letters() -> None:
    text = "команда: «ок» \u2013 see  OPS-1\u202e"
    assert quoted_text(text) == f'"{text[:-1]}\\u202e"'
    assert printable(text, 100) == f"{text[:-1]}\\u202e"
