"""A snapshot of the feed as a file of ACLs: read whole, refused in part, and what `klamm verify` says of files."""

import gzip
import io
import json
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from app.cli.entry_point import main
from app.core.kafka.bindings import NewAcl, StandardAcl
from app.formats.acl_csv import write_csv
from app.formats.feed_events import Acls, encode
from app.formats.feed_values import acl_fields, configs_of, snapshot_of, synced_of
from app.formats.registry import FEED
from tests.acl_sets import acls_of, problems_of, recognised
from tests.images import image_of
from tests.updates import topic

END = datetime(2999, 12, 1, 18, tzinfo=UTC)
STORED = [
    StandardAcl(UUID(int=1), topic("a"), END, "the team"),
    StandardAcl(UUID(int=2), topic("b\u202e\n")),
    StandardAcl(UUID(int=3), topic("c"), None, "x"),
]


def events() -> list[bytes]:
    image = image_of(STORED)
    parts = [Acls([acl_fields(each) for each in some]) for some in (STORED[:2], STORED[2:])]
    return [*map(encode, (snapshot_of(image), *parts, configs_of(image), synced_of(image)))]


def changed(**fields: object) -> bytes:
    """The first ACL with other fields, under the digest of the old ones."""
    lines = [json.loads(each) for each in events()]
    lines[1]["acls"][0] |= fields
    return b"\n".join(json.dumps(each).encode() for each in lines)


def test_its_acls_are_read_with_their_terms() -> None:
    raw = b"\n".join(events())
    assert recognised(raw) is FEED
    assert acls_of(raw) == [NewAcl(each.binding, *each.terms) for each in STORED]
    end = b'\n{"type": "end", "token": null, "reason": "draining"}\n{"type": "weather"}\n'
    assert len(acls_of(gzip.compress(raw + end))) == 3


def test_it_is_recognised_by_its_first_event_with_keys_in_any_order() -> None:
    first, *others = events()
    turned = json.dumps(dict(reversed(json.loads(first).items()))).encode()
    for raw in (b"\n".join([turned, *others]), b"\xef\xbb\xbf" + b"\r\n".join([first, *others]) + b"\r\n"):
        assert recognised(raw) is FEED
        assert len(acls_of(raw)) == 3
    assert recognised(b"type: snapshot\n") is None


@pytest.mark.parametrize("missing", range(5))
def test_a_part_of_it_is_refused(missing: int) -> None:
    lines = events()
    del lines[missing]
    if missing != 3:
        assert problems_of(b"\n".join(lines), FEED)
    assert problems_of(b"\n".join(events()[: missing + 1]), FEED) or missing == 4


def test_what_was_changed_in_it_is_seen(subtests: pytest.Subtests) -> None:
    for raw in [
        changed(owner="me"),
        changed(expires_at=None),
        changed(resource_name="d"),
        changed(permission_type="DENY"),
        changed(id=str(UUID(int=9))),
        b"\n".join([*events()[:2], events()[1], *events()[2:]]),
        b"\n".join([*events(), *events()]),
    ]:
        with subtests.test(raw=raw):
            assert "export the ACLs again" in problems_of(raw, FEED)[-1]


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (changed(operation="FLY"), "word that this version does not know: 'FLY'"),
        (changed(owner=""), "owner must not be empty"),
        (changed(principal="nobody"), "no colon is present"),
        (changed(expires_at="soon"), "not valid for its type"),
        (b"\n".join([events()[0], b"{"]), "not an event"),
    ],
)
def test_what_is_no_acl_is_told(raw: bytes, told: str) -> None:
    assert told in "".join(problems_of(raw, FEED))


def test_verify_proves_an_export_and_says_what_it_can_not_prove(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "acls"
    path.write_bytes(gzip.compress(b"\n".join(events())))
    assert main(["verify", str(path)]) == 0
    assert "3 ACLs, 0 properties, digest" in capsys.readouterr().out
    path.write_bytes(changed(owner="me"))
    assert main(["verify", str(path)]) == 1
    assert "damaged: line 5: the digest" in capsys.readouterr().err
    with path.open("w", newline="") as file:
        write_csv([NewAcl(topic("a"), None, None)], file)
    assert main(["verify", str(path)]) == 2
    assert "is in the format csv, which has no ids, hashes and digest" in capsys.readouterr().err
    path.write_bytes(b"\x1f\x8bnonsense")
    assert main(["verify", str(path)]) == 2
    assert "can't read it" in capsys.readouterr().err


def test_only_a_service_writes_it() -> None:
    with pytest.raises(TypeError):
        FEED.write([NewAcl(topic("a"))], io.StringIO())
