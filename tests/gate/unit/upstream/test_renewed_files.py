"""Files of authorities and certificates are read anew when they are other ones, and not for each request."""

from pathlib import Path

from app.upstream.connection import Connection, UpstreamOptions
from tests.certificates import Authority


async def test_a_client_is_made_anew_for_files_that_were_renewed_and_only_then(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    mine = authority.certify("mine")
    connection = Connection(
        UpstreamOptions(
            urls=["https://upstream:8443"],
            follower="own",
            ca_file=authority.file,
            certificate=mine.certificate,
            key=mine.key,
        )
    )
    try:
        clients = [connection._prepared()[1]]
        for renewed in (None, authority.file, mine.certificate, mine.key):
            if renewed is not None:
                # As a secret is renewed: another file takes its place.
                other = tmp_path / "renewed"
                other.write_bytes(renewed.read_bytes())
                other.chmod(0o600)
                other.replace(renewed)
                clients.append(connection._prepared()[1])
                assert clients[-1] is not clients[-2]
            assert connection._prepared()[1] is clients[-1]
    finally:
        await connection.close()
