"""ACLs for programs, read back by the parsers that programs have; and what a terminal is spared."""

import csv
import io
import json
import random
from datetime import UTC, datetime

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from app.client.acls.meaning import Entry, Pattern
from app.client.acls.text import WRITERS, current_acls, on_one_line
from app.client.words import harmless
from app.core.index.table import sort_key
from app.core.kafka.bindings import KEEP, AclBinding, NewAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.formats.acl_bodies import acl_body
from app.formats.acl_entries import FormatLimitError
from app.formats.csv_cells import unmarked
from tests.acl_sets import acls_of, random_binding

HEADER = "Principal,ResourceType,PatternType,ResourceName,Operation,PermissionType,Host,ExpiresAt,Owner"
COLUMNS = (
    "principal", "resource_type", "pattern_type", "resource_name", "operation", "permission_type", "host", "expires_at",
    "owner",
)  # fmt: skip
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8) | st.sampled_from(
    [
        "*",
        "no",
        "null",
        "a, b",
        'q"q',
        "a\nb",
        "\r\n",
        " x ",
        "\x1b[2J",
        "\x85",
        "\u2028",
        "=1",
        "'=1",
        "\ufeff",
        "😀",
        "\U000e0001",
    ]
)


END = datetime(2026, 12, 1, 18, tzinfo=UTC)


def written(form: str, acls: list[NewAcl]) -> str:
    out = io.StringIO(newline="")
    WRITERS[form](acls, out)
    return out.getvalue()


def read(form: str, text: str) -> list[dict[str, str | None]]:
    if form in ("json", "yaml"):
        parsed: list[dict[str, str | None]] = json.loads(text) if form == "json" else yaml.safe_load(text)
        return parsed
    header, *rows = csv.reader(io.StringIO(text, newline=""))
    names = HEADER.split(",")
    assert [each.removeprefix("'") for each in header] in (names[:7], names)
    marked = header[0].startswith("'")
    assert [each for each in header if each.startswith("'")] == [
        f"'{each}" for each in names[: len(header)] if marked and each in ("Principal", "ResourceName", "Host", "Owner")
    ]
    found = []
    for row in rows:
        texts = list(map(unmarked, row)) if marked else list(row)
        ends, owner = ([each or None for each in texts[7:]] + [None, None])[:2]
        found.append(dict(zip(COLUMNS, [*texts[:7], ends, owner], strict=True)))
    return found


BINDINGS = st.builds(
    AclBinding,
    st.sampled_from([ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID]),
    TEXTS,
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    TEXTS,
    TEXTS,
    st.sampled_from([AclOperation.READ, AclOperation.ALTER_CONFIGS]),
    st.sampled_from([AclPermissionType.ALLOW, AclPermissionType.DENY]),
)


OWNERS = TEXTS.filter(bool)
ACLS = st.builds(NewAcl, BINDINGS, st.sampled_from([None, END]), st.none() | OWNERS)


@pytest.mark.parametrize("form", ["json", "yaml", "csv"])
@given(st.lists(ACLS, max_size=4))
def test_what_is_written_reads_back(form: str, acls: list[NewAcl]) -> None:
    assert read(form, written(form, acls)) == [acl_body(each) for each in acls]


@pytest.mark.parametrize("form", ["json", "yaml"])
@given(ACLS)
def test_what_is_written_moves_no_cursor(form: str, acl: NewAcl) -> None:
    assert all(line.isprintable() for line in written(form, [acl]).split("\n"))


@pytest.mark.parametrize("form", WRITERS)
def test_klamm_reads_what_it_prints(form: str) -> None:
    """Hard names, with ends and owners; what the text can't say is refused before anything is written."""
    read = refused = 0
    for seed in range(60):
        draw = random.Random(seed)
        acls = [
            NewAcl(binding, draw.choice([None, END]), draw.choice([None, "the team", 'a, "b" \\ \u202e=é']))
            for binding in {random_binding(draw) for _ in range(draw.randrange(1, 6))}
        ]
        acls.sort(key=lambda acl: sort_key(acl.binding))
        while acls:
            out = io.StringIO(newline="")
            try:
                WRITERS[form](acls, out)
                break
            except FormatLimitError as limit:
                assert out.getvalue() == ""
                acls = [each for each in acls if each.binding != limit.binding]
                refused += 1
        found = acls_of(out.getvalue().encode()) if acls else []
        said = [(each.binding, each.expires_at or KEEP, each.owner or KEEP) for each in acls]
        assert sorted(said, key=str) == sorted(
            ((each.binding, each.expires_at or KEEP, each.owner or KEEP) for each in found), key=str
        ), seed
        read += len(found)
    assert read > 100
    assert (refused > 0) is (form == "text")


def test_a_line_of_csv_ends_as_its_rfc_says() -> None:
    assert written("csv", []) == f"{HEADER.removesuffix(',ExpiresAt,Owner')}\r\n"


def test_text_is_exact_in_files_and_harmless_on_terminals() -> None:
    entry = Entry("User:\x1b[2Jé", "*", AclOperation.READ, AclPermissionType.ALLOW)
    pattern = Pattern(ResourceType.TOPIC, "a\nb", PatternType.LITERAL)
    acls = [NewAcl(pattern.with_entry(entry))]
    assert "\x1b[2Jé" in current_acls(pattern, acls, on_one_line)
    shown = current_acls(pattern, acls, harmless)
    assert "name=a\\nb," in shown
    assert "principal=User:\\x1b[2Jé," in shown


def test_no_text_of_an_acl_makes_another_line(subtests: pytest.Subtests) -> None:
    for end in ["\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x85", "\u2028"]:
        for show in [on_one_line, harmless]:
            with subtests.test(end=end, show=show):
                forged = f"x, host=*, operation=READ, permissionType=ALLOW){end}\t(principal=User:evil"
                entry = Entry(f"User:{forged}", f"h{end}", AclOperation.READ, AclPermissionType.ALLOW)
                pattern = Pattern(ResourceType.TOPIC, f"a{end}b", PatternType.LITERAL)
                text = current_acls(pattern, [NewAcl(pattern.with_entry(entry), None, f"o{end}")], show)
                assert len(text.splitlines()) == 3
                assert text.splitlines() == text.split("\n")[:-1]


class Terminal(io.StringIO):
    """Standard output that somebody looks at."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("form", WRITERS)
def test_no_form_gives_a_terminal_what_it_would_obey(form: str) -> None:
    binding = AclBinding(
        ResourceType.TOPIC, "a\x1b[2Jb", PatternType.LITERAL, "User:\x07\r", "\x9b", AclOperation.READ,
        AclPermissionType.ALLOW,
    )  # fmt: skip
    out = Terminal(newline="")
    WRITERS[form]([NewAcl(binding, END, "\x1b[2J")], out)
    # The text begins each entry with a tab.
    assert out.getvalue().replace("\r\n", "").replace("\n\t", "").replace("\n", "").isprintable()
