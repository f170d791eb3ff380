from uuid import UUID

import pytest

from app.core.kafka.errors import InvalidRequestException
from app.core.token import Token

EPOCH = UUID("5a6f9f10-94c5-4a1c-9a70-0d5b6f3c2e11")


@pytest.mark.parametrize("offset", [0, 1, 42, (1 << 63) - 1])
def test_a_token_reads_back(offset: int) -> None:
    assert Token.parse(str(Token(EPOCH, offset))) == Token(EPOCH, offset)


def test_garbage_is_no_token(subtests: pytest.Subtests) -> None:
    for text in [
        "",
        ":",
        f"{EPOCH}",
        f"{EPOCH}:",
        f"{EPOCH}:-1",
        f"{EPOCH}:01",
        f"{EPOCH}:1 ",
        f"{EPOCH}:1\n",
        f" {EPOCH}:1",
        f"{EPOCH}:1_0",
        f"{EPOCH}:\u0661",
        f"{EPOCH}:{1 << 63}",
        f"{EPOCH}:{'9' * 5000}",
        f"{str(EPOCH).upper()}:1",
        f"{EPOCH.hex}:1",
        f"{{{EPOCH}}}:1",
        "garbage",
        "\0",
    ]:
        with subtests.test(text=text), pytest.raises(InvalidRequestException, match="not a token of this service"):
            Token.parse(text)
