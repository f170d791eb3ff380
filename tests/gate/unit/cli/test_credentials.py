"""What is said at the start of callers and issuers that do nothing."""

import logging
from pathlib import Path

import pytest

from app.cli.credentials import callers_of, refuse_exposed_address, warn_of_unusable_callers
from app.formats.command_errors import UsageError
from app.metrics.declared import Metrics
from app.rest.callers.token_file import add_token
from app.settings.model import Settings, read_settings
from tests.surroundings import leave

TABLES = """
tokens.file = "tokens"

[callers.orders]
role = "decide"
principals = ["User:*"]

[callers.platform]
role = "admin"
principal = "User:platform"

[callers.gateway]
role = "observe"
issuer = "corp"
subject = "gateway"
"""
ISSUER = '[issuers.{name}]\nissuer = "https://{name}/"\naudience = "klamm"\njwks = "keys.json"\n'


@pytest.fixture(autouse=True)
def _clean_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leave(monkeypatch, tmp_path)


def settings(text: str, flags: dict[str, object] | None = None) -> Settings:
    Path("klamm.toml").write_text(text)
    return read_settings(flags)


def said(log: pytest.LogCaptureFixture) -> dict[str, dict[str, object]]:
    assert {line.levelno for line in log.records} <= {logging.WARNING}
    return {line.message: vars(line) for line in log.records}


def test_callers_and_issuers_that_are_complete_are_worth_no_word(caplog: pytest.LogCaptureFixture) -> None:
    found = settings(TABLES + ISSUER.format(name="corp"))
    for name in ("orders", "platform"):
        add_token(Path("tokens"), name, found.callers)
    warn_of_unusable_callers(found)
    assert said(caplog) == {}


def test_callers_without_a_token_and_issuers_without_callers_are_named(caplog: pytest.LogCaptureFixture) -> None:
    found = settings(TABLES + ISSUER.format(name="corp") + ISSUER.format(name="spare"))
    Path("tokens").write_text("")
    warn_of_unusable_callers(found)
    assert said(caplog)["caller_without_proof"]["callers"] == "orders,platform"
    assert said(caplog)["issuer_without_callers"]["issuers"] == "spare"


def test_a_file_of_tokens_that_is_not_there_is_told_with_the_way_out() -> None:
    found = settings(TABLES + ISSUER.format(name="corp"))
    for start in (warn_of_unusable_callers, lambda each: callers_of(each, Metrics())):
        with pytest.raises(UsageError, match=r"tokens\.file: `tokens`.* create it with `klamm token NAME`"):
            start(found)


def test_who_serves_without_tls_is_told_why_that_matters(caplog: pytest.LogCaptureFixture) -> None:
    found = settings(TABLES + ISSUER.format(name="corp"), {"host": "192.0.2.1"})
    refuse_exposed_address(found)
    assert "tls.certificate" in str(said(caplog)["served_without_tls"]["why"])
