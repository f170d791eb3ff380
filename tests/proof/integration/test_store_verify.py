"""`klamm verify` on a real store: what holds, and what was planted."""

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from app.cli.entry_point import main
from app.core.continuity import KnownHistory
from app.core.kafka.bindings import NewAcl
from app.core.kafka.filters import AclBindingFilter
from app.core.mutations import CreateAcls
from app.formats.database_url import DatabaseUrl
from app.store.reading.change_feed import PostgresChangeFeed
from app.store.writing.acl_store import PostgresAclStore
from tests.postgres import Postgres
from tests.updates import ACTOR, alter, create, delete, topic

PAGE = Path(__file__).parents[3] / "docs" / "feed.md"


_EACH = """
import os, sys
from app.cli.entry_point import main
for url in sys.argv[1:]:
    os.environ["KLAMM_DATABASE_URL"] = url
    print("exit code", main(["verify"]), flush=True)
"""


@pytest.fixture
async def filled(store: PostgresAclStore) -> None:
    await fill(store)


async def fill(store: PostgresAclStore) -> None:
    await store.write([create(topic("a"), topic("b\t\\"), topic("c"))], KnownHistory())
    await store.write([CreateAcls([NewAcl(topic("a"), owner="x")], ACTOR, comment="y")], KnownHistory())
    await store.write([delete(AclBindingFilter(resource_name="c")), alter(("super.users", "User:a"))], KnownHistory())


async def verify(store_url: str) -> tuple[int | None, str]:
    """The exit code, and what was said on either stream."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "import sys; from app.cli.entry_point import main; sys.exit(main(['verify']))"),
        env={**os.environ, "KLAMM_DATABASE_URL": store_url},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    return process.returncode, said.decode()


@pytest.mark.usefixtures("filled")
async def test_a_sound_store_holds_also_when_its_beginning_is_trimmed(store_url: str) -> None:
    code, said = await verify(store_url)
    assert (code, "holds up to offset 6: 6 records" in said) == (0, True), said
    feed = PostgresChangeFeed(DatabaseUrl.parse(store_url))
    assert await feed.trim(keep_age=None, keep_count=3) == 3
    await feed.close()
    code, said = await verify(store_url)
    assert (code, "2 ACLs, 1 properties, digest" in said) == (0, True), said


async def test_what_was_changed_behind_klamms_back_is_named(postgres: Postgres) -> None:
    """A store for each damage; one process looks at all of them."""
    damages = [
        ("UPDATE acl SET permission_type = 2 WHERE resource_name = 'a'", "the digest at offset 6"),
        ("UPDATE acl SET owner = 'z' WHERE resource_name = 'a'", "the digest at offset 6"),
        ("DELETE FROM acl WHERE resource_name = 'a'", "the digest at offset 6"),
        ("UPDATE config SET value = 'User:mallory'", "the digest at offset 6"),
        ("UPDATE acl_record SET actor = 'User:mallory' WHERE \"offset\" = 2", "record 2: the hash chain is broken"),
        ("UPDATE acl_record SET comment = 'z' WHERE \"offset\" = 4", "record 4: the hash chain is broken"),
        ('UPDATE acl_record SET comment = NULL, owner = NULL WHERE "offset" = 4', "record 4: hash version 2"),
        ('DELETE FROM acl_record WHERE "offset" = 4', "record 4: it is missing"),
        ("UPDATE acl_head SET digest = sha256('x')", "the digest at offset 6"),
        (
            "DELETE FROM acl WHERE resource_name = 'a'; UPDATE acl_head SET digest = NULL",
            "the digest at offset 6",
        ),
    ]
    urls = [await asyncio.to_thread(postgres.new_store) for _ in damages]
    for url, (damage, _) in zip(urls, damages, strict=True):
        store = PostgresAclStore(DatabaseUrl.parse(url))
        await fill(store)
        await store.close()
        database = await asyncpg.connect(url)
        await database.execute(damage)
        await database.close()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _EACH, *urls), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    async with asyncio.timeout(300):
        output, _ = await process.communicate()
    *said, rest = re.split(r"^exit code (.+)\n", output.decode(), flags=re.MULTILINE)
    assert rest == ""
    for (damage, told), text, code in zip(damages, said[::2], said[1::2], strict=True):
        assert code == "1", damage
        assert f"damaged: {told}" in text, damage


def test_a_file_of_events_is_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line[4:] for line in PAGE.read_text().splitlines(keepends=True) if line.startswith('    {"type"')]
    events = tmp_path / "events.ndjson"
    events.write_text("".join(lines))
    assert main(["verify", str(events)]) == 0
    assert "holds up to offset 4: 4 records" in capsys.readouterr().out
    events.write_text("".join(lines[2:]).replace("TICKET-17", "TICKET-18") + lines[0])
    assert main(["verify", str(events)]) == 1
    events.write_text("")
    assert main(["verify", str(events)]) == 2
    assert main(["verify", str(tmp_path / "none")]) == 2
