package klamm.kafka;

/** The figures of an authorizer, over JMX. */
public interface KlammAuthorizerMXBean {
    /** Decided actions since the start. */
    long getRequests();

    long getAllowed();

    long getDenied();

    /** -1 before the first image. */
    int getAclCount();

    /** How long ago this broker's ACLs were known to be the newest; -1 until it is known. */
    long getReplicaAgeMs();

    /** Of the last record that decisions stand on; -1 before the first image. */
    long getOffset();

    /** How often the feed was asked for. */
    long getConnections();

    /** Snapshots of the whole state that this node took. */
    long getSnapshots();

    /** Events of the feed that failed a check, each of which led to a snapshot or to another URL. */
    long getRefusedEvents();

    /** Events of a later version, which this plugin can't read; each led to a snapshot or to another URL. */
    long getUnknownEvents();

    /** Errors (such as no memory) that ended a stream of the feed. */
    long getFollowerErrors();

    /** Stored properties that this plugin does not know, so that they have no effect. */
    int getUnknownProperties();

    /** How long the last change through this node took until it decided by it; -1 if there was none. */
    long getLastUpdateLatencyMs();

    /** Lines of the decision log that were lost, as they were too many or the disk did not take them. */
    long getDecisionsNotLogged();
}
