package klamm.kafka;

import java.util.function.Supplier;

/** How fast a number rises: over the last 30 to 60 s where it is asked for often enough, else since it was last asked. */
final class Rate {
    private static final long WINDOW_NANOS = 30_000_000_000L;
    private static final double NANOS_PER_MINUTE = 60e9;

    private final Supplier<Long> total;
    private Seen older;
    private Seen newer;

    private record Seen(long nanos, long total) {}

    Rate(Supplier<Long> total) {
        this.total = total;
        this.older = new Seen(System.nanoTime(), total.get());
        this.newer = older;
    }

    synchronized double perMinute() {
        Seen now = new Seen(System.nanoTime(), total.get());
        if (now.nanos - newer.nanos > WINDOW_NANOS) {
            older = newer;
            newer = now;
        }
        return (now.total - older.total) * NANOS_PER_MINUTE / Math.max(1, now.nanos - older.nanos);
    }
}
