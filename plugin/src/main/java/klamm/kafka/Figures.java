package klamm.kafka;

import java.util.concurrent.atomic.LongAdder;

/** What the follower of the feed counts. */
final class Figures {
    /** Requests for the feed. */
    final LongAdder connections = new LongAdder();
    final LongAdder snapshots = new LongAdder();
    /** Events that failed a check. */
    final LongAdder refused = new LongAdder();
    /** Events of a later version, which this one can't read. */
    final LongAdder unknown = new LongAdder();
    /** Errors and exceptions that nobody expects. */
    final LongAdder errors = new LongAdder();
}
