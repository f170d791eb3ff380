"""What a file needs: what it imports, names, and starts."""

from pathlib import Path

import pytest

from tests.proof.inputs import Inputs

_FILES = {
    "app/__init__.py": "",
    "app/core/__init__.py": "",
    "app/core/picture.py": "from app.core.signs import X\n",
    "app/core/signs.py": "X = 1\n",
    "app/cli/entry_point.py": "from app.cli import orders\n",
    "app/cli/__init__.py": "",
    "app/cli/orders.py": 'COMMANDS = ["app.cli.offer"]\n',
    "app/cli/offer.py": "import app.core.picture\n",
    "app/console/__init__.py": "",
    "app/console/invented.py": 'PAGE = load("invented.html.j2")\n',
    "app/console/templates/invented.html.j2": "",
    "app/rest/__init__.py": "",
    "app/rest/invented.py": 'FOLDER = Path(__file__).with_name("static")\n',
    "app/rest/static/look.css": "",
    "docs/page.md": "",
    "plugin/pom.xml": "",
    "plugin/src/Follower.java": "",
    "tests/conftest.py": "import tests.shared\n",
    "tests/shared.py": "",
    "tests/service.py": 'import subprocess\nPROGRAM = "klamm"\n',
    "tests/unit/conftest.py": "",
    "tests/unit/test_picture.py": "from app.core import picture\n",
    "tests/unit/test_later.py": "def test_it():\n    from app.core.picture import Image\n",
    "tests/unit/test_page.py": "import app.console.invented\n",
    "tests/unit/test_patch.py": 'PATCHED = "app.core.signs.X"\n',
    "tests/unit/test_relative.py": "from . import test_picture\n",
    "tests/test_docs.py": 'PAGE = ROOT / "docs" / "page.md"\n',
    "tests/test_copied.py": 'PAGE = tmp_path / "docs" / "page.md"\n',
    "tests/test_plugin.py": 'POM = ROOT / "plugin" / "pom.xml"\n',
    "tests/test_e2e.py": "from tests.service import Service\n",
    "tests/test_reads.py": 'CODE = ROOT / "app" / "core" / "picture.py"\n',
}


@pytest.fixture
def inputs(tmp_path: Path) -> Inputs:
    for name, text in _FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    # A module that is gone, which a change has removed.
    return Inputs(tmp_path, [*_FILES, "app/core/gone.py"])


@pytest.mark.parametrize(
    ("file", "needed", "distance"),
    [
        ("tests/unit/test_picture.py", "tests/unit/test_picture.py", 0),
        ("tests/unit/test_picture.py", "app/core/picture.py", 1),
        ("tests/unit/test_picture.py", "app/core/__init__.py", 1),
        ("tests/unit/test_picture.py", "app/core/signs.py", 2),
        ("tests/unit/test_picture.py", "tests/unit/conftest.py", 4),
        ("tests/unit/test_picture.py", "tests/shared.py", 5),
        ("tests/unit/test_later.py", "app/core/picture.py", 1),
        ("tests/unit/test_page.py", "app/console/templates/invented.html.j2", 2),
        ("app/rest/invented.py", "app/rest/static/look.css", 1),
        ("tests/unit/test_patch.py", "app/core/signs.py", 1),
        ("tests/unit/test_relative.py", "app/core/picture.py", 2),
        ("tests/test_docs.py", "docs/page.md", 1),
        ("tests/test_plugin.py", "plugin/src/Follower.java", 1),
        ("tests/test_e2e.py", "app/cli/offer.py", 4),
        ("tests/test_reads.py", "app/core/picture.py", 1),
    ],
)
def test_an_input_is_found_and_how_far_it_is(inputs: Inputs, file: str, needed: str, distance: int) -> None:
    assert inputs.distances(file)[needed] == distance


@pytest.mark.parametrize(
    ("file", "other"),
    [
        ("tests/unit/test_picture.py", "app/cli/offer.py"),
        ("tests/test_copied.py", "docs/page.md"),
        ("tests/test_docs.py", "tests/unit/conftest.py"),
        ("tests/test_reads.py", "app/core/signs.py"),
    ],
)
def test_what_is_no_input_is_not_found(inputs: Inputs, file: str, other: str) -> None:
    assert other not in inputs.distances(file)


def test_a_module_that_is_gone_is_an_input_of_who_still_imports_it(inputs: Inputs, tmp_path: Path) -> None:
    (tmp_path / "tests/unit/test_picture.py").write_text("import app.core.gone\n")
    assert inputs.distances("tests/unit/test_picture.py")["app/core/gone.py"] == 1


def test_whoever_names_many_files_is_about_none_of_them(tmp_path: Path) -> None:
    many = [f"docs/page_{number}.md" for number in range(50)]
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_all.py").write_text('PAGES = ROOT / "docs"\n')
    (tmp_path / "tests/test_one.py").write_text('PAGE = ROOT / "docs" / "page_7.md"\n')
    inputs = Inputs(tmp_path, [*many, "tests/test_all.py", "tests/test_one.py"])
    assert inputs.distances("tests/test_one.py")["docs/page_7.md"] == 1
    assert inputs.distances("tests/test_all.py")["docs/page_7.md"] == 4
