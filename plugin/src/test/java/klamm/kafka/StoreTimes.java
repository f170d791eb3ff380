package klamm.kafka;

import java.time.Instant;

/** Writes how many seconds the store's time moves by answers that were asked for a while ago, line by line. */
public final class StoreTimes {
    private static final Instant NOON = Instant.parse("2026-11-23T12:00:00Z");

    private StoreTimes() {}

    public static void main(String[] arguments) {
        StoreTime time = new StoreTime();
        System.out.println("first: " + movedBy(time, 0, 0));
        System.out.println("long on its way: " + movedBy(time, 0, 300));
        System.out.println("ahead and long on its way: " + movedBy(time, 3_600, 60));
        System.out.println("behind: " + movedBy(time, 100, 10));
        StoreTime suspended = new StoreTime();
        suspended.answered(NOON, System.nanoTime(), System.currentTimeMillis() - 60_000);
        System.out.println("suspended: " + suspended.isDoubtful());
        System.out.println("long on its way then: " + movedBy(suspended, 0, 300) + " " + suspended.isDoubtful());
    }

    /** By an answer that says so much after noon, and was asked for so long ago. */
    private static String movedBy(StoreTime time, int said, int agoS) {
        long before = time.atMostMs();
        time.answered(
            NOON.plusSeconds(said), System.nanoTime() - agoS * 1_000_000_000L,
            System.currentTimeMillis() - agoS * 1_000L);
        long since = time.atMostMs() - (before == Long.MAX_VALUE ? NOON.toEpochMilli() : before);
        return Long.toString(Math.round(since / 10_000.0) * 10);
    }
}
