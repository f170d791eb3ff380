"""A new column of `acl` touches four files, tried out in a copy of `app/` on a real PostgreSQL (ARCHITECTURE.md)."""

from pathlib import Path

from tests.copies import Edits, copy_app, run_in

MIGRATION = '''"""Whom an ACL belongs to."""

from alembic import op

revision = "2099_01_01_team"
down_revision = "HEAD"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute('ALTER TABLE acl ADD COLUMN team text COLLATE "C"')


def downgrade() -> None:
    op.execute("ALTER TABLE acl DROP COLUMN team")
'''

EDITS: Edits = {
    "app/core/kafka/bindings.py": [
        (
            "    owner: str | None = None\n\n    @property\n",
            "    owner: str | None = None\n    team: str = 'team-a'\n\n    @property\n",
        )
    ],
    "app/store/rows.py": [
        (
            '        "created_by": "text",\n        **TERMS_COLUMNS,\n',
            '        "created_by": "text",\n        **TERMS_COLUMNS,\n        "team": "text",\n',
        ),
        ("record.actor, *acl.terms)", "record.actor, *acl.terms, acl.team)"),
    ],
    "app/store/tables.py": [
        ('    _text("created_by"),\n', '    _text("created_by"),\n    _text("team", nullable=True),\n')
    ],
}

WRITE = """
import asyncio, sys
import asyncpg
from app.core.continuity import KnownHistory
from app.core.mutations import CreateAcls
from app.formats.database_url import DatabaseUrl
from app.store.migrate import migrate
from app.store.writing.acl_store import PostgresAclStore
from tests.updates import new, topic

async def main(dsn):
    url = DatabaseUrl.parse(dsn)
    await migrate(url)
    store = PostgresAclStore(url)
    await store.write([CreateAcls(new([topic("orders")]), "User:admin")], KnownHistory())
    await store.close()
    connection = await asyncpg.connect(dsn)
    print(await connection.fetchval("SELECT team FROM acl"))
    await connection.close()

asyncio.run(main(sys.argv[1]))
"""


def test_a_new_column_touches_four_files(database_url: str, tmp_path: Path) -> None:
    copy_app(tmp_path, EDITS)
    versions = tmp_path / "migrations" / "versions"
    texts = {path.stem: path.read_text() for path in versions.glob("2*.py")}
    (newest,) = (
        each for each in texts if not any(f'down_revision: str | None = "{each}"' in text for text in texts.values())
    )
    (versions / "2099_01_01_team.py").write_text(MIGRATION.replace("HEAD", newest))
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "updates.py").write_text((Path(__file__).parents[2] / "updates.py").read_text())
    assert run_in(tmp_path, "-c", WRITE, database_url).strip() == "team-a"
