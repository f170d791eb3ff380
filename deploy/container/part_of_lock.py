"""A part of a lock file: `part_of_lock.py LOCK --only NAME ...` or `--without NAME ...`; to standard output.

Ends with 1 if the lock has no entry of one of these names, for then it is not what the caller takes it for.
"""

import argparse
import re
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

_ENTRY = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==")


def entries(text: str) -> Iterator[tuple[str, str]]:
    """Name and text of each entry: a line that begins with a name, and the indented ones below it."""
    name, lines = "", list[str]()
    for line in text.splitlines(keepends=True):
        begins = _ENTRY.match(line)
        if begins is not None:
            if name:
                yield name, "".join(lines)
            name, lines = begins[1], []
        lines.append(line)
    if name:
        yield name, "".join(lines)


def part(text: str, names: Collection[str], *, only: bool) -> str:
    """The entries with these names, or all others. Raises KeyError for names that no entry has."""
    found = dict(entries(text))
    missing = sorted(set(names) - found.keys())
    if missing:
        raise KeyError(", ".join(missing))
    return "".join(entry for name, entry in found.items() if (name in names) == only)


def main() -> int:
    """Print the part that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lock", type=Path)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--only", nargs="+", metavar="NAME")
    which.add_argument("--without", nargs="+", metavar="NAME")
    given = parser.parse_args()
    try:
        text = part(given.lock.read_text(encoding="utf-8"), given.only or given.without, only=bool(given.only))
    except KeyError as missing:
        sys.stderr.write(f"part_of_lock: {given.lock} has no entry {missing.args[0]}\n")
        return 1
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
