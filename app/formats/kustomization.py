"""kustomize's own file, beside KafkaUsers. It holds no ACLs, but may change those beside it, and their cluster.

INVARIANT: what it changes is refused, or is what the users themselves say.
"""

from collections.abc import Iterator, Mapping

from app.core.spelling import nearest
from app.formats.acl_entries import Entry, Problem
from app.formats.reading import Cluster, Reading
from app.formats.resources import LEAST_LIKENESS_OF_LABELS, misspelt
from app.formats.yaml_documents import Fields, Items, Scalar, Value, fields_of, is_null, line_of

KINDS = ("Kustomization", "Component")
CLUSTER_LABEL = "strimzi.io/cluster"
PAUSED = "strimzi.io/pause-reconciliation"

_CHANGING = (
    "namePrefix", "nameSuffix", "patches", "patchesStrategicMerge", "patchesJson6902", "replacements", "vars",
    "components", "transformers", "generators", "helmCharts", "helmChartInflationGenerator",
)  # fmt: skip
_NAMESPACE, _LABELS, _ANNOTATIONS = "namespace", ("labels", "commonLabels"), "commonAnnotations"


def changes_of(file: Fields, reading: Reading) -> Iterator[Entry]:
    """What is wrong with it: that the resources beside it are not as they stand, or of two clusters."""
    for key, value in file.value:
        if not is_null(value) and value.value and not reading.passes_over((key.value,)):
            line, name = line_of(key), key.value
            problems = [*_changes(name), *_metadata(name, value), *_clusters(name, value, line, reading)]
            if problems:
                yield line, [Problem(each, (name,)) for each in problems]


def _changes(name: str) -> Iterator[str]:
    meant = nearest(name, _CHANGING, likeness=LEAST_LIKENESS_OF_LABELS)
    if name in _CHANGING:
        yield f"it changes other resources; give what is made of them, {_without(name)}"
    elif meant is not None:
        yield f"there is no such field; did you mean `{meant}`?"


def _metadata(name: str, value: Value) -> Iterator[str]:
    if name in _LABELS:
        yield from misspelt(_pairs(value), [CLUSTER_LABEL])
    elif name == _ANNOTATIONS:
        annotations = _pairs(value)
        yield from misspelt(annotations, [PAUSED])
        if annotations.get(PAUSED, "").lower() == "true":
            yield f"`{PAUSED}`: the users are paused, so Strimzi does nothing with them; remove it"


def _clusters(name: str, value: Value, line: int, reading: Reading) -> Iterator[str]:
    """Of which other cluster it makes the resources. With --of-cluster, each of them says itself of which it is."""
    if reading.files.of_cluster is not None:
        return
    if name == _NAMESPACE and isinstance(value, Scalar):
        cluster = Cluster(namespace=value.value)
    elif name in _LABELS and (label := _pairs(value).get(CLUSTER_LABEL)) is not None:
        cluster = Cluster(label)
    else:
        return
    conflict = reading.files.conflict(cluster, reading.place(line))
    if conflict is not None:
        first, place = conflict
        yield (
            f"it makes the resources of the cluster `{cluster}`, but {place} is of `{first}`; give the files of one "
            f"cluster, {_without(name)}"
        )


def _without(name: str) -> str:
    return f"or read the file without it: --pass-over {name}"


def _pairs(value: Value) -> Mapping[str, str]:
    """Those of a mapping, or of the `pairs` of each item."""
    found: dict[str, str] = {}
    for each in value.value if isinstance(value, Items) else [value]:
        pairs = fields_of(each).get("pairs") if isinstance(value, Items) and isinstance(each, Fields) else each
        if isinstance(pairs, Fields):
            found |= {name: text.value for name, text in fields_of(pairs).items() if isinstance(text, Scalar)}
    return found
