"""What `klamm test` prints: lines for people, JSON, and JUnit's XML for CI."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TextIO

from app.client.acl_texts import acl_text, resource_text
from app.client.assertions.files import Test
from app.client.console import Page, write_json
from app.client.groups import groups_body, with_groups
from app.client.words import counted
from app.core.access.assertions import Witness
from app.core.verdicts import Rule
from app.formats.arguments import one_line

MAX_WITNESSES = 5
"""The most witnesses shown for one test, also in JSON."""

_RULES = {
    Rule.SUPER_USER: "it is a super user",
    Rule.DEFAULT_ALLOW: "the resource has no ACL (allow.everyone.if.no.acl.found)",
    Rule.DEFAULT_DENY: "no ACL allows it",
}
_TOO_MUCH = "too many names and hosts to check; narrow it down, by name or by from"


@dataclass(frozen=True, slots=True)
class Outcome:
    """`witnesses` may be one more than are shown; None: it was too much to work out, which is not a pass."""

    test: Test
    witnesses: Sequence[Witness] | None

    @property
    def holds(self) -> bool:
        return self.witnesses is not None and not self.witnesses

    @property
    def reasons(self) -> list[str]:
        """Why it does not hold, each with what decided."""
        if self.witnesses is None:
            return [_TOO_MUCH]
        return [f"{sentence_of(each)}: {reason_of(each)}" for each in self.witnesses[:MAX_WITNESSES]]

    @property
    def has_more(self) -> bool:
        return self.witnesses is not None and len(self.witnesses) > MAX_WITNESSES


@dataclass(frozen=True, slots=True)
class Report:
    outcomes: Sequence[Outcome]
    about: str
    """What was tested, such as `2,219 ACLs of acls.csv`."""
    notes: Sequence[str]

    @property
    def failed(self) -> list[Outcome]:
        return [each for each in self.outcomes if not each.holds]

    @property
    def summary(self) -> str:
        count, failed = len(self.outcomes), len(self.failed)
        if failed:
            return f"{failed} of {counted(count, 'test')} failed"
        return "the one test passed" if count == 1 else f"all {count} tests passed"


def sentence_of(witness: Witness) -> str:
    """`User:bob may READ topic:pii.cards from 10.1.2.3`."""
    may = "may" if witness.decision.verdict.allowed else "may not"
    resource = resource_text(witness.resource_type, witness.resource_name)
    who = with_groups(witness.principal, witness.groups)
    return f"{who} {may} {witness.operation.name} {resource} from {witness.client_address}"


def reason_of(witness: Witness) -> str:
    acl = witness.decision.acl
    return _RULES[witness.decision.verdict.rule] if acl is None else f"by {acl_text(acl.binding)}"


def print_report(report: Report, out: TextIO, *, shows_all: bool) -> None:
    page = Page(out, wrapped=True)
    for each in report.outcomes:
        if each.holds and not shows_all:
            continue
        word, style = ("ok", "green") if each.holds else ("FAILED", "bold red")
        page.line(f"{each.test.path}:{each.test.line} {each.test.name}", before=word, style=style)
        if each.test.name != each.test.text and not each.holds:
            page.line(each.test.text, indent=1)
        page.lines(each.reasons)
        if each.has_more:
            page.line("and others", indent=1)
    if any(shows_all or not each.holds for each in report.outcomes):
        page.line("")
    for note in report.notes:
        page.line(f"Note: {note}")
    page.line(f"{report.summary[:1].upper()}{report.summary[1:]} ({report.about}).")


def write_json_report(report: Report, out: TextIO) -> None:
    tests = [_body(each) for each in report.outcomes]
    counts = {"tests": len(tests), "failed": len(report.failed)}
    write_json({**counts, "about": report.about, "notes": list(report.notes), "results": tests}, out)


def _body(outcome: Outcome) -> dict[str, object]:
    test = outcome.test
    return {
        "file": test.path,
        "line": test.line,
        "name": test.name,
        "assert": test.text,
        "comment": test.comment,
        "holds": outcome.holds,
        "reasons": outcome.reasons,
        "witnesses": [
            {
                "principal": each.principal,
                **groups_body(each.groups),
                "client_address": each.client_address,
                "operation": each.operation.name,
                "resource_type": each.resource_type.name,
                "resource_name": each.resource_name,
                "result": each.decision.verdict.result.value,
                "rule": each.decision.verdict.rule.value,
            }
            for each in (outcome.witnesses or ())[:MAX_WITNESSES]
        ],
        "more_witnesses": outcome.has_more,
    }


def write_junit(report: Report, out: TextIO) -> None:
    """A suite for each file, a case for each test, a failure with its witnesses."""
    totals = f'tests="{len(report.outcomes)}" failures="{len(report.failed)}" errors="0" skipped="0"'
    out.write(f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="klamm test" {totals}>\n')
    for path in dict.fromkeys(each.test.path for each in report.outcomes):
        suite = [each for each in report.outcomes if each.test.path == path]
        failures = sum(not each.holds for each in suite)
        out.write(
            f'  <testsuite name={_attribute(path)} tests="{len(suite)}" failures="{failures}" errors="0" skipped="0">\n'
        )
        for each in suite:
            out.writelines(_case(each))
        out.write(f"    <system-out>{_text('; '.join((report.about, *report.notes)))}</system-out>\n  </testsuite>\n")
    out.write("</testsuites>\n")


def _case(outcome: Outcome) -> Iterator[str]:
    test = outcome.test
    yield (
        f"    <testcase classname={_attribute(test.path)} name={_attribute(test.name)} file={_attribute(test.path)} "
        f'line="{test.line}"'
    )
    if outcome.holds:
        yield "/>\n"
        return
    lines = [test.text, *([test.comment] if test.comment else ()), *outcome.reasons]
    body = "\n".join(map(_text, [*lines, *(["and others"] if outcome.has_more else ())]))
    message = _attribute(outcome.reasons[0])
    yield f'>\n      <failure type="assertion" message={message}>{body}</failure>\n    </testcase>\n'


def _attribute(text: str) -> str:
    return f'"{_text(text)}"'


def _text(text: str) -> str:
    # Characters that XML can't hold are escaped.
    return escape(one_line(text))
