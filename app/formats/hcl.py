r"""HCL, Terraform's language, as far as blocks and their texts go: enough to find resources, not to evaluate anything.

A text is read exactly or not at all: `${` and `%{` make it a template, which only Terraform can work out. Heredocs are
refused wherever they stand. Terraform brings every text into Unicode's normal form C, and so does this.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

MAX_DEPTH = 32

_TOKEN = re.compile(
    r"""
      (?P<space>[ \t\r]+|(?:\#|//)[^\n]*|/\*.*?\*/)
    | (?P<newline>\n)
    | (?P<heredoc><<-?[^\W\d])
    | (?P<name>[^\W\d][\w-]*)
    | (?P<number>[0-9][\w.]*)
    | (?P<quote>")
    | (?P<mark>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_PLAIN = re.compile(r'[^"\\\n$%]+')
_SIGNS = re.compile(r"(\$+|%+)(\{?)")
_ESCAPE = re.compile(r'\\(?:([nrt"\\])|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8}))')
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t"}
_OPENING, _CLOSING = "([{", ")]}"
_MAX_CODE = 0x10FFFF


class HclFault(Exception):
    """Why the file can't be read from this line on; the text says the way out."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line


class Attribute(NamedTuple):
    """A value within a block; `text` is None if it is anything but a text in quotes."""

    line: int
    name: str
    text: str | None


@dataclass(slots=True)
class Block:
    """A block with what stands right within it: its attributes, and the types of blocks in it with their lines."""

    line: int
    type: str
    labels: list[str]
    attributes: list[Attribute] = field(default_factory=list)
    blocks: list[tuple[int, str]] = field(default_factory=list)


class _Token(NamedTuple):
    kind: str
    text: str
    """What stands there; of a text in quotes, what it means."""
    is_literal: bool = True


def read_blocks(text: str) -> Iterator[Block]:
    """The blocks of a file, in order. Raises HclFault where it can't be read on."""
    reader = _Reader(text)
    while (token := reader.next_of_line()).kind != "end":
        if token.kind != "name":
            raise HclFault(reader.line, f"`{token.text[:40]}` where a block should begin; write for example resource")
        yield reader.block(token.text, 0)


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._counted_to = 0
        self._line = 1

    @property
    def line(self) -> int:
        """Where the reader is."""
        self._line += self._text.count("\n", self._counted_to, self._at)
        self._counted_to = self._at
        return self._line

    def block(self, kind: str, depth: int) -> Block:
        """A block whose type has been read: its labels, and what is in its braces."""
        block = Block(self.line, kind, [])
        while (token := self._next()).text != "{" or token.kind != "mark":
            if token.kind not in ("name", "text") or not token.is_literal:
                raise HclFault(self.line, f"`{kind}`: expected a block: its labels in quotes, and `{{`")
            block.labels.append(token.text)
        self._body(block, depth)
        return block

    def _body(self, block: Block, depth: int) -> None:
        if depth == MAX_DEPTH:
            raise HclFault(self.line, f"it nests deeper than {MAX_DEPTH} levels")
        while (token := self.next_of_line()).text != "}" or token.kind != "mark":
            if token.kind == "end":
                raise HclFault(block.line, f"`{block.type}`: its `}}` is missing")
            if token.kind != "name":
                raise HclFault(self.line, f"`{token.text[:40]}` where a name should stand")
            line, start = self.line, self._at
            following = self._next()
            if following.kind == "mark" and following.text == "=":
                block.attributes.append(Attribute(line, token.text, self._expression()))
            else:
                self._at = start
                block.blocks.append((line, self.block(token.text, depth + 1).type))

    def _expression(self) -> str | None:
        """A value up to the end of its line; its text, if it is nothing else."""
        tokens = 0
        open_brackets: list[str] = []
        last = _Token("mark", "")
        while True:
            start = self._at
            token = self._next()
            is_mark = token.kind == "mark"
            if token.kind == "end" and open_brackets:
                raise HclFault(self.line, f"the `{open_brackets[-1]}` has no end")
            if not open_brackets and (token.kind in ("newline", "end") or (is_mark and token.text in _CLOSING)):
                self._at = start
                return last.text if tokens == 1 and last.kind == "text" and last.is_literal else None
            if is_mark and token.text in _OPENING:
                open_brackets.append(token.text)
                if len(open_brackets) > MAX_DEPTH:
                    raise HclFault(self.line, f"it nests deeper than {MAX_DEPTH} levels")
            elif (
                is_mark and token.text in _CLOSING and _CLOSING.index(token.text) != _OPENING.index(open_brackets.pop())
            ):
                raise HclFault(self.line, f"`{token.text}` closes what it did not open")
            tokens += token.kind != "newline"
            last = token

    def next_of_line(self) -> _Token:
        """The next token that is no line end."""
        token = self._next()
        while token.kind == "newline":
            token = self._next()
        return token

    def _next(self) -> _Token:
        while True:
            found = self._match()
            if found is None:
                return _Token("end", "")
            kind = str(found.lastgroup)
            if kind == "heredoc":
                raise HclFault(self.line, "a heredoc (`<<`); write the text in quotes")
            self._at = found.end()
            if kind == "quote":
                text = self._quoted(0)
                return _Token("text", text or "", is_literal=text is not None)
            if kind != "space":
                return _Token(kind, found[0])

    def _match(self) -> re.Match[str] | None:
        """What stands here, which stays to be read; None at the end."""
        found = _TOKEN.match(self._text, self._at)
        # Told at the first: to look from each for an end that none has would go over the text again and again.
        if found is not None and found[0] == "/" and self._text.startswith("/*", self._at):
            raise HclFault(self.line, "a comment (`/*`) without an end")
        return found

    def _quoted(self, depth: int) -> str | None:
        """What stands up to the closing quote, or None if it is a template."""
        parts: list[str] = []
        is_literal = True
        while (character := self._text[self._at : self._at + 1]) != '"':
            if character in ("", "\n"):
                raise HclFault(self.line, "a text in quotes that does not end on its line")
            if character == "\\":
                parts.append(self._escape())
            elif character in "$%":
                signs = self._signs(depth)
                is_literal = is_literal and signs is not None
                parts.append(signs or "")
            else:
                plain = _PLAIN.match(self._text, self._at)
                assert plain is not None  # noqa: S101 - all other characters are seen to above
                parts.append(plain[0])
                self._at = plain.end()
        self._at += 1
        return unicodedata.normalize("NFC", "".join(parts)) if is_literal else None

    def _escape(self) -> str:
        found = _ESCAPE.match(self._text, self._at)
        if found is None:
            shown = self._text[self._at : self._at + 2]
            raise HclFault(self.line, f"`{shown}` is no escape of HCL; write `\\\\` for a backslash")
        self._at = found.end()
        short, four, eight = found.groups()
        if short is not None:
            return _CONTROLS.get(short, short)
        code = int(four or eight, 16)
        if code > _MAX_CODE or 0xD800 <= code <= 0xDFFF:  # noqa: PLR2004 - surrogates
            raise HclFault(self.line, f"`{found[0]}` is no character; write astral ones as \\UXXXXXXXX")
        return chr(code)

    def _signs(self, depth: int) -> str | None:
        """Dollar or percent signs; None if they begin a template, which is passed over."""
        found = _SIGNS.match(self._text, self._at)
        assert found is not None  # noqa: S101 - the caller has seen one
        signs, brace = found.groups()
        self._at = found.end()
        if not brace:
            return signs
        if len(signs) == 1:
            self._template(depth + 1)
            return None
        # The last two signs are how HCL writes one before a brace; those before them stand for themselves.
        return signs[1:] + brace

    def _template(self, depth: int) -> None:
        """What stands up to the brace that closes it, texts with templates of their own included."""
        if depth == MAX_DEPTH:
            raise HclFault(self.line, f"it nests deeper than {MAX_DEPTH} levels")
        open_braces = 1
        while open_braces:
            found = self._match()
            if found is None:
                raise HclFault(self.line, "a template (`${`) without an end")
            self._at = found.end()
            if found.lastgroup == "quote":
                self._quoted(depth)
            open_braces += (found[0] == "{") - (found[0] == "}")
