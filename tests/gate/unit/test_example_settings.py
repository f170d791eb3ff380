"""examples/klamm.toml is a file that Klamm takes, also with every line that is commented out."""

import re
import tomllib
from pathlib import Path

import pytest

from app.settings.model import Settings, read_settings
from tests.surroundings import leave

EXAMPLE = Path(__file__).parents[3] / "examples" / "klamm.toml"
_TOML_LINE = re.compile(r"# (?=\[|[a-z_.]+ = )")


@pytest.fixture(autouse=True)
def _no_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leave(monkeypatch, tmp_path)


def settings_of(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    (folder / "klamm.toml").write_text(text)
    monkeypatch.chdir(folder)
    return read_settings()


def everything() -> str:
    return "".join(_TOML_LINE.sub("", line, count=1) for line in EXAMPLE.read_text().splitlines(keepends=True))


def test_it_is_toml() -> None:
    assert set(tomllib.loads(EXAMPLE.read_text())) >= {"callers", "issuers", "super", "tokens"}


def test_the_settings_take_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(EXAMPLE.read_text(), tmp_path, monkeypatch)
    assert {caller.role for caller in settings.callers.values()} == {"decide", "admin", "observe"}
    assert settings.callers["payments"].token_subject == "system:serviceaccount:payments:api"
    assert settings.issuers["company"].audience == "klamm"


def test_the_settings_take_what_is_commented_out_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = everything()
    assert text.count("\n# ") < EXAMPLE.read_text().count("\n# ")
    settings = settings_of(text, tmp_path, monkeypatch)
    assert settings.callers["shipping"].certificate == "URI:spiffe://example.com/ns/shipping/sa/api"
    assert settings.tls_client_ca is not None
    assert settings.drain_ms == Settings.model_fields["drain_ms"].default
    assert settings.connections_max == Settings.model_fields["connections_max"].default
    assert settings.decision_log_path is not None
    for field in [each for each in Settings.model_fields if each.startswith("decision_log_") and each[13:] != "path"]:
        assert getattr(settings, field) == Settings.model_fields[field].default, field
        assert f"# {field.replace('_', '.')} = " in EXAMPLE.read_text(), field
