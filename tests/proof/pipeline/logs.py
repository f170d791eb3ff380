"""Random questions, and the log that a service on these ACLs would have written of them."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from app.core.authorize import Authorization
from app.core.image import AuthorizerImage
from app.core.kafka.bindings import StandardAcl
from app.core.kafka.codes import AclOperation, ResourceType
from app.core.kafka.configs import AuthorizerConfig
from app.core.kafka.hosts import parse_address
from app.pipeline.history.log_pieces import hours_of
from app.pipeline.history.schemas import DECISIONS
from app.pipeline.spark.storage import Home, write_document
from tests.decision_lines import decision_line
from tests.images import EPOCH, image_of
from tests.proof.pipeline.random_stores import CALLERS, MORE_ADDRESSES, RESOURCE_NAMES

BEGAN = datetime(2026, 11, 1, tzinfo=UTC)
SUPER = "User:root"

Question = tuple[str, str, str, str, str]
"""Principal, host as Java prints it, operation, resource type, resource name."""


def random_questions(seed: int, count: int, callers: Sequence[str] = (*CALLERS, SUPER)) -> list[Question]:
    """Questions, some of them more than once."""
    draw = Random(seed)
    types = (ResourceType.TOPIC, ResourceType.TOPIC, *ResourceType)
    return [
        (
            draw.choice(callers),
            parse_address(draw.choice(MORE_ADDRESSES)).text,
            draw.choice(tuple(AclOperation)).name,
            draw.choice(types).name,
            draw.choice((*RESOURCE_NAMES, "")),
        )
        for _ in range(count)
    ]


def loaded(acls: Iterable[StandardAcl], *, allow_everyone: bool) -> AuthorizerImage:
    """An image of these ACLs, with one super user."""
    config = AuthorizerConfig(frozenset({SUPER}), allow_everyone_if_no_acl_found=allow_everyone)
    return image_of(acls, config)


def answer(image: AuthorizerImage, question: Question) -> tuple[str, str, str | None]:
    """Result, rule and deciding ACL, as core has them."""
    principal, host, operation, resource_type, name = question
    caller = Authorization(image, principal, parse_address(host))
    said = caller.decision(AclOperation[operation], ResourceType[resource_type], name)
    return said.verdict.result.value, said.verdict.rule_word, None if said.acl is None else str(said.acl.id)


def logged(image: AuthorizerImage, questions: Iterable[Question]) -> list[dict[str, Any]]:
    """The log's rows, a minute apart."""
    rows = []
    for number, question in enumerate(questions):
        result, rule, acl_id = answer(image, question)
        principal, host, operation, resource_type, name = question
        line = decision_line(
            epoch=str(EPOCH),
            offset=number,
            principal=principal,
            host=host,
            operation=operation,
            resource_type=resource_type,
            resource_name=name,
            result=result,
            rule=rule,
            acl_id=acl_id,
        )
        rows.append({**line, "time": BEGAN + timedelta(minutes=number), "groups": None})
    return rows


def log_frame(spark: SparkSession, rows: Iterable[dict[str, Any]]) -> DataFrame:
    """These rows as Spark has them."""
    return spark.createDataFrame([tuple(row.values()) for row in rows], DECISIONS)


def save_log(home: Home, log: DataFrame, batch: int = 0) -> None:
    """As `ingest` leaves a batch, without its files."""
    log = log.withColumns({"day": sf.to_date("time"), "batch": sf.lit(batch)})
    log.write.partitionBy("day", "batch").mode("append").parquet(home.room("decisions", "log"))
    days = {str(row["day"]): row["count"] for row in log.groupBy("day").count().collect()}
    manifest = {"batch": batch, "decisions": sum(days.values()), "days": days, "hours": hours_of(log)}
    path = home.room("decisions", "manifests", f"batch={batch}")
    write_document(log.sparkSession, path, {**manifest, "generation": 1, "after": -1})
