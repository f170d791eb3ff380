package klamm.kafka;

import java.util.LinkedHashMap;
import java.util.function.Supplier;
import org.apache.kafka.common.metrics.Gauge;
import org.apache.kafka.common.metrics.Monitorable;
import org.apache.kafka.common.metrics.PluginMetrics;

/** The authorizer, with its figures among those of the broker (KIP-877). */
public class KlammAuthorizer extends PlainAuthorizer implements Monitorable {
    /** As Kafka's own authorizer calls them, where it has the same. */
    private static final String PER_MINUTE = "-rate-per-minute";

    @Override
    public void withPluginMetrics(PluginMetrics metrics) {
        rate(metrics, "authorization-request", "decided actions", this::getRequests);
        rate(metrics, "authorization-allowed", "allowed actions", this::getAllowed);
        rate(metrics, "authorization-denied", "denied actions", this::getDenied);
        gauge(metrics, "acls-total-count", "ACLs that decisions are made by; -1 before the first", this::getAclCount);
        gauge(metrics, "replica-age-ms", "how long ago the ACLs were known to be the newest; -1: not known",
            this::getReplicaAgeMs);
        gauge(metrics, "replica-offset", "the last record that decisions stand on", this::getOffset);
        gauge(metrics, "feed-connections-total", "how often the feed was asked for", this::getConnections);
        gauge(metrics, "snapshots-total", "how often the whole state was taken anew", this::getSnapshots);
        gauge(metrics, "feed-events-refused-total", "events that failed a check", this::getRefusedEvents);
        gauge(metrics, "feed-events-unknown-total", "events of a later version that this one can't read",
            this::getUnknownEvents);
        gauge(metrics, "follower-errors-total", "errors that ended a stream of the feed", this::getFollowerErrors);
        gauge(metrics, "unknown-properties-count", "stored properties that have no effect in this version",
            this::getUnknownProperties);
        gauge(metrics, "update-latency-ms", "how long the last change through this node took",
            this::getLastUpdateLatencyMs);
        gauge(metrics, "decisions-not-logged-total", "lines of the decision log that were lost",
            this::getDecisionsNotLogged);
    }

    private static void rate(PluginMetrics metrics, String name, String meaning, Supplier<Long> total) {
        gauge(metrics, name + "-total", "the number of " + meaning, total);
        Rate rate = new Rate(total);
        gauge(metrics, name + PER_MINUTE, "the number of " + meaning + " a minute", rate::perMinute);
    }

    private static void gauge(PluginMetrics metrics, String name, String meaning, Supplier<? extends Number> value) {
        Gauge<Number> gauge = (config, now) -> value.get();
        metrics.addMetric(metrics.metricName(name, meaning, new LinkedHashMap<>()), gauge);
    }
}
