"""ACLs on names that exist nowhere."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from app.core.kafka.codes import WILDCARD, AclPermissionType, ResourceType
from app.pipeline.access.effective import masks_of, nodes_of
from app.pipeline.access.patterns import LITERAL, PATTERN, patterns_of
from app.pipeline.hygiene.findings import found_in

DETACHED = "DETACHED"


def detached(acls: DataFrame, resources: DataFrame) -> DataFrame:
    """ALLOW ACLs whose pattern covers none of the known resources (FOUND).

    The literal `*` and the cluster always exist. ACLs on a resource type of which no resource is known at all are
    left alone: a list of topics says nothing about groups. So are DENYs: they may have been made for a name to come.
    """
    allowing = acls.where(sf.col("permission_type") == AclPermissionType.ALLOW.name)
    living = patterns_of(nodes_of(resources, masks_of(allowing)))
    judged = allowing.where(sf.col("resource_type") != ResourceType.CLUSTER.name)
    judged = judged.where((sf.col("pattern_type") != LITERAL) | (sf.col("resource_name") != WILDCARD))
    judged = judged.join(resources.select("resource_type").distinct(), "resource_type", "left_semi")
    found = judged.withColumnRenamed("resource_name", "pattern_name").join(living, list(PATTERN), "left_anti")
    named = found.withColumnRenamed("pattern_name", "resource_name")
    kind, name = sf.lower("resource_type"), sf.col("resource_name")
    literal = sf.format_string("no %s `%s` is known", kind, name)
    prefixed = sf.format_string("no known %s begins with `%s`", kind, name)
    why = sf.when(sf.col("pattern_type") == LITERAL, literal).otherwise(prefixed)
    return found_in(named, sf.lit(DETACHED), why=why, covered=sf.lit(0))
