"""Files of assertions, in YAML: a list of sentences and tests, or a mapping with `tests` and `configs`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from app.client.assertions.sentences import SHAPE, Parts, Word, assertions_of, parse_sentence, word_of
from app.client.file_problems import MAX_PROBLEMS, FileProblem, FilesError, unreadable
from app.core.access.assertions import Assertion
from app.core.kafka.configs import ALLOW_EVERYONE, SUPER_USERS, validate_config
from app.core.kafka.errors import InvalidRequestException
from app.core.spelling import did_you_mean
from app.formats.command_errors import UsageError
from app.formats.lines import TextFault
from app.formats.yaml_documents import (
    Fields,
    Items,
    Scalar,
    Value,
    fields_of,
    is_null,
    is_text,
    line_of,
    read_documents,
)

CONFIGS = (SUPER_USERS, ALLOW_EVERYONE)
"""The properties that affect access."""

_MAX_SHOWN = 200
_MAX_TEXT = 1024 * 1024
"""Characters of one text: a sentence of as many names as one may have together."""
_FILE_FIELDS = ("tests", "configs")
_SUBJECTS = {"principals": True, "nobody_but": False, "everybody_but": True}
_VERBS = {"may": True, "may_not": False}
_STRUCTURED = (*_SUBJECTS, "groups", *_VERBS, "resources", "from")
_TEST_FIELDS = ("name", "comment", "assert", *_STRUCTURED)


@dataclass(frozen=True, slots=True)
class Test:
    """`name` is its sentence if it has no other name. `assertions` are all that it states."""

    path: str
    line: int
    name: str
    text: str
    comment: str | None
    assertions: tuple[Assertion, ...]


@dataclass(frozen=True, slots=True)
class TestFile:
    path: str
    configs: Mapping[str, str]
    tests: Sequence[Test]


def read_tests(path: str) -> TestFile:
    """Raises UsageError; FilesError with the first faults, each with its line."""
    reader = _Reader(path)
    try:
        with Path(path).open("rb") as file:
            for document in read_documents(file):
                reader.take(document)
    except OSError as error:
        raise unreadable(path, error) from None
    except TextFault as fault:
        reader.fail(fault.line, str(fault))
    if not reader.problems and not reader.tests:
        # INVARIANT: a file without tests never counts as one that holds.
        reader.fail(1, "the file has no tests; write a list of sentences, such as - User:alice may READ topic:orders")
    if reader.problems:
        stopped = path if len(reader.problems) > MAX_PROBLEMS else None
        raise FilesError(reader.problems[:MAX_PROBLEMS], stopped, title="fix this first:")
    return TestFile(path, reader.configs, reader.tests)


@dataclass(slots=True)
class _Reader:
    path: str
    tests: list[Test] = field(default_factory=list)
    configs: dict[str, str] = field(default_factory=dict)
    problems: list[FileProblem] = field(default_factory=list)

    def fail(self, line: int, text: str) -> None:
        self.problems.append(FileProblem(self.path, line, None, text))

    def take(self, document: Value) -> None:
        if isinstance(document, Fields):
            self._check_names(document, _FILE_FIELDS)
            fields = fields_of(document)
            self._take_configs(fields.get("configs"))
            if "tests" in fields:
                self._take_tests(fields["tests"])
        elif not is_null(document):
            self._take_tests(document)

    def _take_configs(self, value: Value | None) -> None:
        if value is None:
            return
        if not isinstance(value, Fields):
            self.fail(line_of(value), "`configs`: not a mapping; write properties, such as super.users: User:admin")
            return
        self._check_names(value, CONFIGS)
        for name, given in fields_of(value).items():
            if name not in CONFIGS:
                continue
            try:
                texts = self._texts(name, given, any_scalar=True)
                text = ";".join(each for each, _ in texts) if name == SUPER_USERS else texts[0][0]
                validate_config(name, text)
            except (UsageError, InvalidRequestException) as refusal:
                self.fail(line_of(given), f"`{name}`: {refusal}")
                continue
            if name == ALLOW_EVERYONE and text.lower() not in ("true", "false"):
                self.fail(line_of(given), f"`{name}`: `{text[:_MAX_SHOWN]}` is neither true nor false")
            self.configs[name] = text

    def _take_tests(self, value: Value) -> None:
        if not isinstance(value, Items):
            self.fail(line_of(value), "not a list; write one test per line, such as - User:alice may READ topic:orders")
            return
        for item in value.value:
            try:
                self._take_test(item)
            except UsageError as fault:
                self.fail(line_of(item), str(fault))

    def _take_test(self, item: Value) -> None:
        if isinstance(item, Scalar):
            text = _text(item)
            self.tests.append(Test(self.path, line_of(item), text, text, None, parse_sentence(text)))
            return
        if not isinstance(item, Fields):
            raise UsageError("a list inside the list; write a sentence, or a mapping")
        if not self._check_names(item, _TEST_FIELDS):
            return
        fields = fields_of(item)
        text, said = self._sentences(fields) if "assert" in fields else self._parts(fields)
        name, comment = _remark(fields, "name"), _remark(fields, "comment")
        self.tests.append(Test(self.path, line_of(item), name or text, text, comment, said))

    def _sentences(self, fields: Mapping[str, Value]) -> tuple[str, tuple[Assertion, ...]]:
        beside = next((each for each in _STRUCTURED if each in fields), None)
        if beside is not None:
            raise UsageError(f"`{beside}` can't be combined with `assert`; keep one of them")
        found: list[Assertion] = []
        texts = self._texts("assert", fields["assert"])
        for text, line in texts:
            try:
                found += parse_sentence(text)
            except UsageError as fault:
                self.fail(line, f"`assert`: {fault}")
        return "; ".join(text for text, _ in texts), tuple(found)

    def _parts(self, fields: Mapping[str, Value]) -> tuple[str, tuple[Assertion, ...]]:
        subject, verb = _one_of(fields, _SUBJECTS), _one_of(fields, _VERBS)
        others = subject != "principals"
        if others and _SUBJECTS[subject] and not _VERBS[verb]:
            raise UsageError("`everybody_but` with `may_not` is ambiguous; write `nobody_but` with `may`")
        if others and not _SUBJECTS[subject] and not _VERBS[verb]:
            raise UsageError("`nobody_but` with `may_not` is ambiguous; write `everybody_but` with `may`")
        if "resources" not in fields:
            raise UsageError("`resources`: the field is missing; write one such as topic:orders, or a list")
        lists = {
            name: self._texts(name, fields[name], may_be_empty=others and name == subject)
            for name in (subject, "groups", verb, "resources", "from")
            if name in fields
        }
        words = {name: [_word(name, text) for text, _ in texts] for name, texts in lists.items()}
        allowed = _SUBJECTS[subject] if others else _VERBS[verb]
        hosts, groups = words.get("from", ()), words.get("groups", ())
        parts = Parts(words[subject], others, allowed, words[verb], words["resources"], hosts, groups)
        joined = {name: ", ".join(text for text, _ in texts) for name, texts in lists.items()}
        who = (
            joined[subject]
            if not others
            else subject.replace("_but", f" but {joined[subject]}" if joined[subject] else "")
        )
        who += f" with groups {joined['groups']}" if "groups" in joined else ""
        where = f" from {joined['from']}" if "from" in joined else ""
        return f"{who} {verb.replace('_', ' ')} {joined[verb]} {joined['resources']}{where}", assertions_of(parts)

    def _texts(
        self, name: str, value: Value, *, any_scalar: bool = False, may_be_empty: bool = False
    ) -> list[tuple[str, int]]:
        """One text or a list of them, each with its line. Raises UsageError."""
        items = value.value if isinstance(value, Items) else [value]
        if not items and may_be_empty:
            return []
        if not items:
            raise UsageError(f"`{name}`: the list is empty")
        texts = []
        for each in items:
            if not isinstance(each, Scalar) or is_null(each):
                raise UsageError(f"`{name}`: neither a text nor a list of texts")
            _check_length(each)
            texts.append((each.value if any_scalar else _text(each), line_of(each)))
        return texts

    def _check_names(self, fields: Fields, known: Sequence[str]) -> bool:
        wrong = [name for name, _ in fields.value if name.value not in known]
        for name in wrong:
            shown = name.value[:_MAX_SHOWN]
            others = did_you_mean(shown, known) or f"; known are {', '.join(known)}"
            self.fail(line_of(name), f"`{shown}`: unknown field{others}")
        return not wrong


def _remark(fields: Mapping[str, Value], name: str) -> str | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, Scalar) or not value.value.strip():
        raise UsageError(f"`{name}`: not a text, or an empty one; write a text, or leave the field out")
    _check_length(value)
    return str(value.value)


def _check_length(value: Scalar) -> None:
    if len(value.value) > _MAX_TEXT:
        raise UsageError(
            f"`{value.value[:_MAX_SHOWN]}...`: a text of {len(value.value):,} characters; it may have {_MAX_TEXT:,} at "
            "most, so split it into several tests"
        )


def _text(value: Scalar) -> str:
    _check_length(value)
    if not is_text(value):
        raise UsageError(f"`{value.value[:_MAX_SHOWN]}` is not a text in YAML; put it in quotes")
    return str(value.value)


def _word(name: str, text: str) -> Word:
    try:
        return word_of(text)
    except UsageError as fault:
        raise UsageError(f"`{name}`: {fault}") from None


def _one_of(fields: Mapping[str, Value], names: Mapping[str, bool]) -> str:
    found = [each for each in names if each in fields]
    if len(found) != 1:
        which = ", ".join(f"`{each}`" for each in names)
        raise UsageError(
            f"{'none' if not found else 'more than one'} of {which}; write one of them, or a sentence: assert: {SHAPE}"
        )
    return found[0]
