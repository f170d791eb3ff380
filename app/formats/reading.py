"""One reading of a set of files: what a person lets it pass over, what it did pass over, and of which cluster it is.

INVARIANT: nothing is passed over in silence. A reader that leaves something out says so here, by name.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from app.core.spelling import printable
from app.formats.acl_entries import MAX_SHOWN, FieldPlace, Problem
from app.formats.quoting import shell_line

_NAMES_SHOWN = 20
"""In a line of the output."""


class Cluster(NamedTuple):
    """Of which Kafka cluster a file says that an ACL is; what it doesn't say is None."""

    name: str | None = None
    namespace: str | None = None

    def __str__(self) -> str:
        text = self.name or "" if self.namespace is None else f"{self.namespace}/{self.name or ''}"
        return text[:MAX_SHOWN]

    def may_be(self, other: "Cluster") -> bool:
        return all(mine is None or its is None or mine == its for mine, its in zip(self, other, strict=True))


def cluster_named(text: str) -> Cluster:
    """What --of-cluster names: `live`, or a namespace and a name, `kafka/live`. Raises ValueError if it is neither."""
    namespace, slash, name = text.rpartition("/")
    if not text.isprintable() or not (namespace or name).strip() or (slash and not namespace.strip()):
        raise ValueError("it names no cluster; write NAME or NAMESPACE/NAME, as the files have it")
    return Cluster(name or None, namespace or None)


class FileSet:
    """Files that are read as one: all of them are of one cluster.

    `pass_over` are the places of fields, such as `spec.quotas.x`, that no shape names. `of_cluster` takes the ACLs of
    one cluster only, and needs every ACL to say of which it is.
    """

    def __init__(self, pass_over: frozenset[str] = frozenset(), of_cluster: str | None = None) -> None:
        self.pass_over = pass_over
        self.of_cluster = None if of_cluster is None else cluster_named(of_cluster)
        self.readings: dict[str, Reading] = {}
        """The last reading of each file, by its name."""
        self._said: dict[str, tuple[Cluster, str]] = {}
        """The first cluster that said its name, and that said its namespace, and where."""
        self._configurations: dict[str, tuple[object, str]] = {}

    def reading(self, file: str) -> "Reading":
        """Begins to read this file, perhaps once more."""
        self.readings[file] = reading = Reading(self, file)
        return reading

    def conflict(self, cluster: Cluster, place: str) -> tuple[Cluster, str] | None:
        """Another cluster of these files, and its place. Without one, the next ones must be of this."""
        for part in (part for part in Cluster._fields if getattr(cluster, part) is not None):
            first, _ = said = self._said.setdefault(part, (cluster, place))
            if getattr(first, part) != getattr(cluster, part):
                return said
        return None

    def other_configuration(self, name: str, value: object, place: str) -> str | None:
        """Where the files configure what has this name in another way; None if they do it alike, or here only.

        None as value stands for one that can't be told, and so is like no other.
        """
        first, its_place = self._configurations.setdefault(name, (value, place))
        is_same = first == value and (value is not None or place == its_place)
        return None if is_same else its_place

    def passed_over(self) -> Counter[str]:
        """What was passed over by name, in all files: how often each kind, type, block or field was."""
        return sum((each.passed_over for each in self.readings.values()), Counter())

    def other_clusters(self) -> Counter[str]:
        """How many resources were left out for being of another cluster than `of_cluster`, by its name."""
        return sum((each.other_clusters for each in self.readings.values()), Counter())

    def without_acls(self) -> list[str]:
        """The files that were read and have no ACLs, of no cluster."""
        return [each.file for each in self.readings.values() if not each.acls and not each.other_clusters]

    def unmet(self) -> list[str]:
        """The places of `pass_over` that no file has."""
        met = {place for each in self.readings.values() for place in each.met}
        return sorted(self.pass_over - met)

    def notes(self) -> list[str]:
        """What nobody may miss who relies on these files, a line each. Harmless to a terminal."""
        return _notes(self.passed_over(), self.other_clusters(), self.without_acls(), self.unmet())

    def body(self) -> dict[str, object]:
        """The same for programs."""
        return {
            "passed_over": dict(self.passed_over()),
            "of_other_clusters": dict(self.other_clusters()),
            "without_acls": self.without_acls(),
            "pass_over_in_no_file": self.unmet(),
        }


@dataclass(slots=True)
class Reading:
    """One reading of one file."""

    files: FileSet = field(default_factory=FileSet)
    file: str = ""
    passed_over: Counter[str] = field(default_factory=Counter)
    other_clusters: Counter[str] = field(default_factory=Counter)
    met: set[str] = field(default_factory=set)
    format_name: str = ""
    """As what it is read; empty if that is not known, or nothing is in it."""
    acls: int = 0
    """How many it has, repeats included; whoever reads it counts them."""
    _says_cluster: bool = False
    _refused: set[Cluster] = field(default_factory=set)

    def place(self, line: int) -> str:
        return f"{self.file}:{line}" if self.file else f"line {line}"

    def passes_over(self, place: FieldPlace) -> bool:
        """Whether a person said to pass this field over."""
        if not self.files.pass_over:
            return False
        name = ".".join(place)
        if name not in self.files.pass_over:
            return False
        self.met.add(name)
        self.passed_over[name] += 1
        return True

    def takes(self, cluster: Cluster, line: int) -> bool | Problem:
        """Whether what is of this cluster is to be read; a Problem where it can't be told, or is of a second one.

        Of a second one there is one Problem; the rest of it is not read.
        """
        self._says_cluster = True
        if cluster in self._refused:
            return False
        wanted = self.files.of_cluster
        if wanted is not None and str(cluster) != str(wanted):
            if not wanted.may_be(cluster):
                self.other_clusters[str(cluster)] += 1
                return False
            unsaid = [part for part, its in zip(Cluster._fields, cluster, strict=True) if its is None]
            unsaid = [part for part in unsaid if getattr(wanted, part) is not None]
            if unsaid:
                said = "namespace" if unsaid == ["namespace"] else "cluster"
                return _unsaid(said, wanted)
        # INVARIANT: also of the wanted name there is but one cluster: `live` may be in two namespaces.
        conflict = self.files.conflict(cluster, self.place(line))
        if conflict is None:
            return True
        self._refused.add(cluster)
        first, place = conflict
        # The name is the file's: what is shown to be copied must not do anything else in a shell.
        flag = shell_line(["--of-cluster", str(first)]) or "--of-cluster"
        text = f"it is of the cluster `{cluster}`, but {place} is of `{first}`"
        return Problem(f"{text}; read those of one cluster: {flag}")

    def cluster_problem(self) -> Problem | None:
        """What is wrong with a file that was read, if its format does not say of which cluster its ACLs are."""
        wanted = self.files.of_cluster
        return None if wanted is None or self._says_cluster or not self.acls else _unsaid("cluster", wanted)

    def refusal(self) -> str:
        """Why it is refused if no file has any ACL."""
        if not self.format_name and not self.passed_over:
            return "it is empty"
        about = "; ".join(_notes(self.passed_over, self.other_clusters))
        if self.other_clusters:
            return f"it holds no ACLs of `{self.files.of_cluster}` ({about})"
        if not self.format_name:
            return f"it holds no ACLs ({about})"
        return (
            f"it holds no ACLs in the format {self.format_name}{about and f' ({about})'}; if they are in another one, "
            "name it with --format"
        )


def _unsaid(what: str, wanted: Cluster) -> Problem:
    return Problem(f"it does not say its {what}, so it may not be of `{wanted}`; leave out --of-cluster")


def _notes(
    passed_over: Counter[str], other_clusters: Counter[str], without_acls: Sequence[str] = (), unmet: Sequence[str] = ()
) -> list[str]:
    return [
        f"{title}: {_enumerated(names)}"
        for title, names in (
            ("passed over", _counted(passed_over)),
            ("left out, of other clusters", _counted(other_clusters, "of ")),
            ("without ACLs", without_acls),
            ("no file has what --pass-over names", unmet),
        )
        if names
    ]


def _counted(counts: Counter[str], of: str = "") -> list[str]:
    """The most frequent one first."""
    return [f"{count} {of}{name}" for name, count in sorted(counts.items(), key=lambda each: (-each[1], each[0]))]


def _enumerated(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(printable(each, MAX_SHOWN) for each in names[:_NAMES_SHOWN]) + more
