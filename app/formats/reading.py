"""One reading of a set of files: what a person lets it pass over, what it did pass over, and of which cluster it is.

INVARIANT: nothing is passed over in silence. A reader that leaves something out says so here, by name.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from app.formats.acl_entries import Problem

Place = tuple[str, ...]


class Cluster(NamedTuple):
    """Of which Kafka cluster a file says that an ACL is; what it doesn't say is None."""

    name: str | None = None
    namespace: str | None = None

    def __str__(self) -> str:
        return self.name or "" if self.namespace is None else f"{self.namespace}/{self.name or ''}"

    def may_be(self, other: "Cluster") -> bool:
        return all(mine is None or its is None or mine == its for mine, its in zip(self, other, strict=True))

    def with_what_it_says(self, other: "Cluster") -> "Cluster":
        return Cluster(*(mine if its is None else its for mine, its in zip(self, other, strict=True)))


def cluster_named(text: str) -> Cluster:
    """What --of-cluster names: `live`, or a namespace and a name, `kafka/live`."""
    namespace, slash, name = text.rpartition("/")
    return Cluster(name or None, namespace) if slash else Cluster(name)


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
        self.cluster = Cluster()
        """The one that the files have named so far."""
        self.first_place = ""
        """Where they first named one."""

    def reading(self, file: str) -> "Reading":
        """Begins to read this file, perhaps once more."""
        self.readings[file] = reading = Reading(self, file)
        return reading

    def passed_over(self) -> Counter[str]:
        """What was passed over by name, in all files: how often each kind, type, block or field was."""
        return sum((each.passed_over for each in self.readings.values()), Counter())

    def other_clusters(self) -> Counter[str]:
        """How many resources were left out for being of another cluster than `of_cluster`, by its name."""
        return sum((each.other_clusters for each in self.readings.values()), Counter())

    def unmet(self) -> list[str]:
        """The places of `pass_over` that no file has."""
        met = {place for each in self.readings.values() for place in each.met}
        return sorted(self.pass_over - met)


@dataclass(slots=True)
class Reading:
    """One reading of one file."""

    files: FileSet = field(default_factory=FileSet)
    file: str = ""
    passed_over: Counter[str] = field(default_factory=Counter)
    other_clusters: Counter[str] = field(default_factory=Counter)
    met: set[str] = field(default_factory=set)

    def passes_over(self, place: Place) -> bool:
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
        """Whether what is of this cluster is to be read; a Problem where it can't be told, or is of a second one."""
        files = self.files
        if files.of_cluster is not None:
            wanted = files.of_cluster
            if any(mine is not None and its is None for mine, its in zip(wanted, cluster, strict=True)):
                return Problem(f"it says of no cluster, so it may not be of `{wanted}`; leave out --of-cluster")
            if wanted.may_be(cluster):
                return True
            self.other_clusters[str(cluster)] += 1
            return False
        if not files.cluster.may_be(cluster):
            return Problem(
                f"it is of the cluster `{cluster}`, but {files.first_place} is of `{files.cluster}`; read those of one "
                f"cluster: --of-cluster {files.cluster}"
            )
        if any(cluster) and not any(files.cluster):
            files.first_place = f"{self.file}:{line}" if self.file else f"line {line}"
        files.cluster = files.cluster.with_what_it_says(cluster)
        return True
