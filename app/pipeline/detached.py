"""ACLs on names that exist nowhere."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from app.core.codes import WILDCARD, ResourceType
from app.pipeline.effective import masks_of, nodes_of
from app.pipeline.findings import findings_of
from app.pipeline.patterns import LITERAL, PATTERN, patterns_of

DETACHED = "DETACHED"


def detached(acls: DataFrame, resources: DataFrame) -> DataFrame:
    """ACLs whose pattern covers none of the known resources (FINDINGS).

    The literal `*` and the cluster always exist. ACLs on a resource type of which no resource is known at all are
    left alone: a list of topics says nothing about groups.
    """
    masks = masks_of(acls)
    living = patterns_of(nodes_of(resources, masks))
    judged = acls.where(sf.col("resource_type") != ResourceType.CLUSTER.name)
    judged = judged.where((sf.col("pattern_type") != LITERAL) | (sf.col("resource_name") != WILDCARD))
    judged = judged.join(resources.select("resource_type").distinct(), "resource_type", "left_semi")
    found = judged.withColumnRenamed("resource_name", "pattern_name").join(living, list(PATTERN), "left_anti")
    named = found.withColumnRenamed("pattern_name", "resource_name")
    kind, name = sf.lower("resource_type"), sf.col("resource_name")
    literal = sf.format_string("no %s `%s` is known", kind, name)
    prefixed = sf.format_string("no known %s begins with `%s`", kind, name)
    why = sf.when(sf.col("pattern_type") == LITERAL, literal).otherwise(prefixed)
    return findings_of(named, sf.lit(DETACHED), why=why, covered=sf.lit(0))
