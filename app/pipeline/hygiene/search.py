"""The search for all findings in a snapshot: shadowed ACLs first, then what the log and lists of resources show."""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from app.core.epochs import Epochs
from app.core.kafka.codes import AclPermissionType
from app.core.kafka.configs import ALLOW_EVERYONE
from app.core.verdicts import Rule
from app.pipeline.access.effective import masks_of, nodes_of
from app.pipeline.access.replay import open_to_all, questions, replay
from app.pipeline.context import JobContext
from app.pipeline.history.epochs import is_one_history, last_offsets
from app.pipeline.history.export import acls_ever
from app.pipeline.history.manifests import read_exported
from app.pipeline.history.schemas import ACLS, FOUND, columns
from app.pipeline.history.snapshot import Snapshot
from app.pipeline.hygiene.evidence import Log, left_out, names_of
from app.pipeline.hygiene.findings import (
    DETACHED,
    REDUNDANT,
    UNUSED,
    HygieneFindings,
    going,
    save_findings,
    save_last_used,
)
from app.pipeline.hygiene.shadowed import shadowed, with_reading
from app.pipeline.hygiene.usage import broad_acls, closed_without_acl, detached, narrowed, over_broad, unused
from app.pipeline.spark.checkpoint import checkpointed


@dataclass(frozen=True, slots=True)
class Search:
    """One run of `hygiene`. Without a log only shadowed ACLs and those on names that are not listed are found."""

    context: JobContext
    arguments: argparse.Namespace
    snapshot: Snapshot
    log: Log | None

    def run(self) -> HygieneFindings:
        looked_at = {
            "days": None if self.log is None else self.arguments.days,
            "min_days": self.arguments.min_days,
            "covered_hours": None if self.log is None else self.log.coverage.covered_hours,
            "left_out": left_out(self.log),
            "resources": self.arguments.resources,
        }
        return save_findings(self.context.home, self.snapshot, self._parts, looked_at, self.arguments.tool)

    @property
    def _lasting(self) -> DataFrame:
        """The ACLs that don't end: only they are judged by use, and only they can replace another."""
        return self.snapshot.in_effect.where(sf.col("expires_s").isNull())

    def _parts(self, saved: Callable[[], DataFrame]) -> Iterator[DataFrame]:
        read = with_reading(self.snapshot.in_effect).persist()
        yield shadowed(read)
        read.unpersist()
        if self.log is not None:
            save_last_used(self.context.home, self.snapshot, self.log.decisions)
        names, acls, log = names_of(self.context, self.arguments, self.log), self._lasting, self.log
        if names.of_listed_types is not None:
            logged = [] if log is None else [log.words]
            yield detached(acls, names.of_listed_types, " and ".join([self.arguments.resources, *logged]))
        if log is not None and log.judged is not None and names.seen is not None:
            judged = checkpointed(log.judged)
            yield detached(acls.join(judged, "id", "left_semi"), names.of_other_types(names.seen), log.words)
            yield from self._by_use(log, judged, names.known(names.seen), saved)
        if names.seen is not None:
            names.seen.unpersist()

    def _by_use(
        self, log: Log, judged: DataFrame, known: DataFrame, saved: Callable[[], DataFrame]
    ) -> Iterator[DataFrame]:
        """UNUSED and OVER_BROAD: only ACLs that the log covers enough time of (`judged`) are ever among them."""
        is_open = self._open_to_all(log.decisions)
        # INVARIANT: all findings may be mended together. An ACL that decided nothing because a narrower one did may be
        # what makes the narrower one redundant. So the replay uses only the ACLs that earlier findings leave in place.
        # Each append to the files that `left` is read from would drop Spark's cache, and the replay would run twice.
        left = checkpointed(_without(self._lasting, saved().select(sf.col("acl_id").alias("id"))))
        # A super user may not be one tomorrow, and without an authorizer everybody is logged as one.
        every = questions(log.decisions.withColumn("rule", sf.lit(Rule.MATCHING_ACL.value))).persist()
        replayed = replay(left, every, allow_everyone=is_open, buckets=self.arguments.buckets).persist()
        logged = checkpointed(log.decisions.select("acl_id").distinct())
        yield unused(left, replayed, logged, log=log.words, allow_everyone=is_open, judged=judged)
        # An UNUSED ACL can't be relied on to keep a resource closed: it may be gone by then.
        needed = checkpointed(_without(left, _ids(saved(), UNUSED)))
        nodes = nodes_of(known, masks_of(broad_acls(needed)))
        broad = over_broad(needed, replayed, nodes, allow_everyone=is_open)
        broad = checkpointed(broad.join(judged, "id", "left_semi"))
        back = checkpointed(self._back(saved(), broad))
        if back.isEmpty():
            yield narrowed(broad, replayed, log.words)
        else:
            # An ACL that a broad one made redundant can only decide what the broad one has decided.
            asked = replayed.join(broad.select(sf.col("id").alias("acl_id")), "acl_id", "left_semi")
            lasting = back.where(sf.col("expires_s").isNull())
            again = replay(needed.unionByName(lasting), asked, allow_everyone=False, buckets=self.arguments.buckets)
            again = again.persist()
            yield narrowed(broad, again, log.words)
            yield unused(lasting, again, logged, log=log.words, allow_everyone=False, judged=judged)
            again.unpersist()
            yield from _kept(_without(back, _ids(saved(), UNUSED)), _without(needed, broad.select("id")), saved)
        replayed.unpersist()
        every.unpersist()

    def _back(self, found: DataFrame, broad: DataFrame) -> DataFrame:
        """The REDUNDANT ACLs that are not, because the ACL that made them so goes for another reason."""
        wider = going(found).unionByName(broad.select(sf.col("id").alias("by_acl_id")))
        redundant = found.where(sf.col("kind") == REDUNDANT).join(wider, "by_acl_id", "left_semi")
        back = self.snapshot.in_effect.join(redundant.select(sf.col("acl_id").alias("id")), "id", "left_semi")
        return _without(back, _ids(found, DETACHED))

    def _open_to_all(self, decisions: DataFrame) -> bool:
        """Whether resources without ACLs count as open. True if that is unknown, which only keeps more ACLs."""
        given = self.arguments.allow_everyone_if_no_acl_found
        if given or ALLOW_EVERYONE in self.snapshot.configs:
            return open_to_all(given, self.snapshot)
        if open_to_all(None, self.snapshot, decisions):
            return True
        if not closed_without_acl(*self._known_states(decisions)).isEmpty():
            return False
        self.context.console.note(
            "the log does not show whether resources without ACLs are open, so ACLs that keep one closed are kept; "
            "add --allow-everyone-if-no-acl-found false if they are not open"
        )
        return True

    def _known_states(self, decisions: DataFrame) -> tuple[DataFrame, DataFrame]:
        """The decisions at offsets whose ACLs are known, and all ACLs that existed at any of those."""
        spark, home, snapshot = self.context.spark, self.context.home, self.snapshot
        exported = read_exported(spark, home)
        own = snapshot.epochs, snapshot.offset
        if exported is None or exported.faults() or not is_one_history(exported.epochs, exported.last_offset, *own):
            return snapshot.acls, _made_at(spark, decisions, snapshot.epochs, snapshot.offset, snapshot.offset)
        known = _made_at(spark, decisions, exported.epochs, exported.start_offset, exported.last_offset)
        return acls_ever(spark, home, exported), known


def _kept(kept: DataFrame, others: DataFrame, saved: Callable[[], DataFrame]) -> Iterator[DataFrame]:
    """Findings about these REDUNDANT ACLs (ACLS), beside the `others` that stay: some can go for another one of all.

    The rest is named, but has to stay if the wider ACL goes.
    """
    kept = checkpointed(kept)
    allowing = sf.col("permission_type") == AclPermissionType.ALLOW.name
    read = with_reading(others.unionByName(kept).where(allowing)).persist()
    yield shadowed(read, read.join(kept.select("id"), "id", "left_semi"))
    read.unpersist()
    # A later finding about an ACL has the wider one that stays, so the ACL is REDUNDANT twice here.
    found = saved().where(sf.col("kind") == REDUNDANT).join(kept.select(sf.col("id").alias("acl_id")), "acl_id")
    once = found.groupBy("acl_id").agg(sf.count(sf.lit(1)).alias("times")).where(sf.col("times") == 1).drop("times")
    why = sf.concat("why", sf.lit("; but if that one is removed or narrowed, this one is needed"))
    null = sf.lit(None).cast(FOUND["narrower"].dataType)
    yield found.join(once, "acl_id").withColumns({"why": why, "narrower": null}).select(FOUND.fieldNames())


def _ids(found: DataFrame, kind: str) -> DataFrame:
    return found.where(sf.col("kind") == kind).select(sf.col("acl_id").alias("id"))


def _without(acls: DataFrame, ids: DataFrame) -> DataFrame:
    return acls.join(ids, "id", "left_anti").select(ACLS.fieldNames())


def _made_at(spark: SparkSession, decisions: DataFrame, epochs: Epochs, first: int, last: int) -> DataFrame:
    """The rows (USES) with a decision that was certainly made at one of these offsets of the history."""
    known = spark.createDataFrame(last_offsets(epochs, last), columns("known string not null, upto bigint not null"))
    made = [sf.col(name).between(first, sf.col("upto")) for name in ("first_offset", "last_offset")]
    is_known = (sf.col("epoch") == sf.col("known")) & (made[0] | made[1])
    return decisions.join(sf.broadcast(known), is_known, "left_semi")
