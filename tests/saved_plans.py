"""Saved plans as somebody would write them who knows their form: changed, and with a hash that fits."""

import json
from pathlib import Path
from typing import Any

from app.formats.saved_plans import seal


def fields_of(path: Path) -> dict[str, Any]:
    """All but the version and the hash."""
    body = json.loads(path.read_text())
    return {name: value for name, value in body.items() if name not in ("klamm_plan", "sha256")}


def write_sealed(path: Path, fields: dict[str, Any]) -> None:
    path.write_text(json.dumps(seal(fields)))
