"""What a database URL says reaches the sessions of the service, and those of migrations."""

from sqlalchemy import text

from app.formats.database_url import DatabaseUrl
from app.store.engine import StoreTimeouts, connect
from app.store.migrate import migration_engine

_OPTIONS = (
    "options=-c%20deadlock_timeout%3D7s&search_path=public&timezone=Asia/Tokyo&work_mem=7MB&application_name=mine"
)
_SETTINGS = {
    "deadlock_timeout": "7s",
    "search_path": "public",
    "TimeZone": "Asia/Tokyo",
    "work_mem": "7MB",
}


async def test_settings_of_the_url_reach_each_session(database_url: str) -> None:
    url = DatabaseUrl.parse(f"{database_url}?{_OPTIONS}&target_session_attrs=primary&sslmode=disable")
    session = await connect(url, StoreTimeouts(), "trial")
    try:
        for name, value in _SETTINGS.items():
            assert await session.fetchval(f"SHOW {name}") == value
        assert await session.fetchval("SHOW application_name") == "klamm trial"
    finally:
        await session.close()
    engine = migration_engine(url)
    try:
        async with engine.connect() as connection:
            for name, value in _SETTINGS.items():
                assert await connection.scalar(text(f"SHOW {name}")) == value
    finally:
        await engine.dispose()


async def test_a_host_that_does_not_answer_is_followed_by_the_next(database_url: str) -> None:
    login, _, place = database_url.removeprefix("postgresql://").rpartition("@")
    url = DatabaseUrl.parse(f"postgresql://{login}@127.0.0.1:1,{place}?target_session_attrs=read-write")
    session = await connect(url, StoreTimeouts(), "trial")
    try:
        assert await session.fetchval("SELECT 1") == 1
    finally:
        await session.close()
