package klamm.kafka;

import java.time.Instant;

/**
 * What time it is in the store, at most (docs/watch.md, "The store's time"): its clock at the last look, and this
 * machine's monotonic clock since then, counted 0.05 % faster, as no two clocks run alike.
 */
final class StoreTime {
    private static final double RATE = 1.0005;
    private static final long DRIFT_MS = 2_000;

    /** {@code wallMs} finds what the monotonic clock leaves out: on Linux it stands while the machine is suspended. */
    private record Look(long storeMs, long nanos, long wallMs) {
        long atMostMs() {
            long passed = Math.max(System.nanoTime() - nanos, (System.currentTimeMillis() - wallMs) * 1_000_000);
            return storeMs + (long) (Math.max(0, passed) * RATE / 1_000_000) + 1;
        }
    }

    private volatile Look look;

    /**
     * The answer to a question that was asked when the clocks stood so. One that was long on its way is left out where
     * the count before it is closer.
     */
    void answered(Instant storeTime, long askedNanos, long askedWallMs) {
        Look answer = new Look(ceilMs(storeTime), askedNanos, askedWallMs);
        long known = atMostMs();
        boolean isCloser = answer.storeMs > known || answer.atMostMs() < known;
        // The count goes on by the clocks as they stand now: that they disagreed before is no reason to ask again.
        look = isCloser ? answer : new Look(known, System.nanoTime(), System.currentTimeMillis());
    }

    /** What a stream said, whenever that was: it can only be later by now, so it never takes the time back. */
    void heard(Instant storeTime) {
        if (ceilMs(storeTime) > atMostMs()) {
            look = new Look(ceilMs(storeTime), System.nanoTime(), System.currentTimeMillis());
        }
    }

    /** Milliseconds since 1970; the end of all time before the first look, so that whatever can end has ended. */
    long atMostMs() {
        Look now = look;
        return now == null ? Long.MAX_VALUE : now.atMostMs();
    }

    /** Whether this machine's clocks disagree, so that it is time to ask the store again. */
    boolean isDoubtful() {
        Look now = look;
        return now != null && System.currentTimeMillis() - now.wallMs
            - (System.nanoTime() - now.nanos) / 1_000_000 > DRIFT_MS;
    }

    boolean hasEnded(long second) {
        return atMostMs() / 1_000 >= second;
    }

    private static long ceilMs(Instant time) {
        return time.toEpochMilli() + 1;
    }
}
