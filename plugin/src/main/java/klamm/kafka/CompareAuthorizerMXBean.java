package klamm.kafka;

/** What a comparison has found so far, over JMX. */
public interface CompareAuthorizerMXBean {
    long getSame();

    /** Kafka's own authorizer and Klamm's differ; each such question is in the log once. */
    long getDifferent();

    /** Klamm's authorizer had no state yet, or could not answer. */
    long getNotCompared();
}
