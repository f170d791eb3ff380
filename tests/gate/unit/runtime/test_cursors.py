import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.index.table import SortKey
from app.core.kafka.errors import InvalidRequestException
from app.runtime.listing import CURSORS

codes = st.integers(0, 127)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)


@given(st.tuples(codes, texts, codes, texts, texts, codes, codes))
def test_a_cursor_leads_back_to_its_place(key: SortKey) -> None:
    assert CURSORS.decode(CURSORS.encode(key)) == key


def packed(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).rstrip(b"=").decode()


def test_anything_else_is_refused(subtests: pytest.Subtests) -> None:
    for garbage in [
        "",
        "x",
        "!!!!",
        "äöü",
        "AAAA====",
        packed(None),
        packed({}),
        packed([]),
        packed([2, "n", 3, "p", "h", 3]),
        packed([2, "n", 3, "p", "h", 3, True]),
        packed(["2", "n", 3, "p", "h", 3, 3]),
        packed([2, None, 3, "p", "h", 3, 3]),
        packed([-1, "n", 3, "p", "h", 3, 3]),
        packed([2, "n", 3, "p", "h", 3, 128]),
        packed([2.0, "n", 3, "p", "h", 3, 3]),
        packed([2, "n", 3, "p", "h", 3, 3]) + "=",
        base64.urlsafe_b64encode(b'[2, "n",3,"p","h",3,3]').decode().rstrip("="),
        base64.urlsafe_b64encode(b"[" * 100_000).decode().rstrip("="),
        "A" * 1_000_001,
    ]:
        with subtests.test(garbage=garbage), pytest.raises(InvalidRequestException, match="`cursor`"):
            CURSORS.decode(garbage)


@given(st.text(max_size=200))
def test_no_text_at_all_makes_another_fault(text: str) -> None:
    with pytest.raises(InvalidRequestException):
        CURSORS.decode(text)
