"""Generate and build a client in each language from openapi.json: `make clients`.

Exit code: 0 all that were asked for are built; 1 a build has failed; 2 asked for wrongly; 3 some language misses its
tool, and all others are built.
"""

import argparse
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from app.pipeline.spark.errors import PipelineError
from deploy.clients.kept import fingerprint, kept
from deploy.clients.languages import LANGUAGES
from deploy.clients.tools import BuildError, ToolMissingError

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
DOCUMENT = ROOT / "openapi.json"
FAILED, MISSING = 1, 3


def client(language: str, document: Path = DOCUMENT) -> Path:
    """The folder of this language's client in the cache, made if it is not there. Nobody may write into it.

    Raises ToolMissingError, saying how to get the tool, and BuildError, saying what the tool said.
    """
    recipe = LANGUAGES[language]
    tools = recipe.tools()
    own = sorted(path for path in (HERE / language).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    mark = fingerprint([document, *sorted(HERE.glob("*.py")), *own], tools.versions)
    return kept(language, mark, lambda folder: recipe.build(tools, document, folder))


def main(arguments: Sequence[str] | None = None) -> int:
    """Build what the arguments ask for, and tell of each language in one line."""
    chosen = _parser().parse_args(arguments)
    codes = {_built(language, chosen.openapi, chosen.output) for language in chosen.only or LANGUAGES}
    return FAILED if FAILED in codes else max(codes)


def _built(language: str, document: Path, output: Path) -> int:
    began = time.monotonic()
    try:
        made = client(language, document)
    except ToolMissingError as missing:
        sys.stderr.write(f"{language}: not built: {missing}\n")
        return MISSING
    except (BuildError, PipelineError) as failed:
        sys.stderr.write(f"{language}: failed: {failed}\n")
        return FAILED
    target = output / language
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(made, target, symlinks=True)
    sys.stdout.write(f"{language}: built in {target} ({time.monotonic() - began:.0f} s)\n")
    sys.stdout.flush()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m deploy.clients.generate", description="Generate and build clients from openapi.json."
    )
    parser.add_argument(
        "--only",
        type=_languages,
        metavar="LANGUAGE,...",
        help=f"languages to generate, of {', '.join(LANGUAGES)} (default: all)",
    )
    parser.add_argument(
        "--openapi", type=_file, default=DOCUMENT, metavar="FILE", help="the OpenAPI document (default: %(default)s)"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("build/clients"),
        metavar="FOLDER",
        help="output folder (default: %(default)s)",
    )
    return parser


def _languages(text: str) -> list[str]:
    asked = text.split(",")
    unknown = [name for name in asked if name not in LANGUAGES]
    if unknown:
        raise argparse.ArgumentTypeError(f"`{unknown[0]}` is not one of {', '.join(LANGUAGES)}")
    return asked


def _file(text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"there is no file `{text}`; `klamm openapi --output {text}` writes one")
    return path.resolve()


if __name__ == "__main__":
    sys.exit(main())
