"""Files of key=value lines, as java.util.Properties reads them."""

import pytest

from app.client.http.config_files import parse_properties


def test_lines_mean_what_they_mean_to_java(subtests: pytest.Subtests) -> None:
    for text, expected in [
        ("a=b", [("a", "b")]),
        ("a = b", [("a", "b")]),
        ("a:b", [("a", "b")]),
        ("a b", [("a", "b")]),
        ("a", [("a", "")]),
        ("a=", [("a", "")]),
        ("  a=b  ", [("a", "b")]),
        ("a=b=c:d e", [("a", "b=c:d e")]),
        ("# a=b\n! a=b\n\n  \n", []),
        ("a=b\\\n   c", [("a", "bc")]),
        ("a=b\\", [("a", "b")]),
        ("a=b\\\\\nc=d", [("a", "b\\"), ("c", "d")]),
        ("a\\=b=c", [("a=b", "c")]),
        ("a=\\u00e9\\t.\\,\\q", [("a", "é\t.,q")]),
        ("a=é日", [("a", "é日")]),
        ("a=b\r\nc=d\r\n", [("a", "b"), ("c", "d")]),
    ]:
        with subtests.test(text=text, expected=expected):
            assert [(key, value) for _, key, value in parse_properties(text)] == expected


def test_each_line_is_known_by_its_number() -> None:
    assert [number for number, _, _ in parse_properties("# one\na=\\\n b\n\nc=d")] == [2, 5]
