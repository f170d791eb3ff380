package klamm.kafka;

import java.time.Instant;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.UUID;

/**
 * The epochs of one history, oldest first; the last one is in force. At least one, at most {@link #MOST}. They are what
 * leader epochs are in Kafka: a store that has lost records hands out their offsets again, in a later epoch
 * (docs/feed.md; app/core/epochs.py says the same).
 */
record Epochs(List<Epoch> rows) {
    static final int MOST = 1_000;
    private static final long AHEAD_MS = 86_400_000;
    /** The version of UUIDs that begin with their time in milliseconds (RFC 9562). */
    private static final int RISING = 7;
    private static final int TIME_SHIFT = 16;

    /** @param firstOffset the last offset of the epoch before; records with a greater one were written in this */
    record Epoch(UUID id, long firstOffset) {}

    /** What a position is to a history. */
    enum Standing {
        PART, LOST,
        /** It is no part of the history, and the history's last epoch is not later. */
        AHEAD,
        /** Its epoch lies so far in the future that no store has begun it. */
        INVALID
    }

    /** Why a follower asks for a snapshot. */
    enum Cause { NOTHING_HELD, LOST, TRIMMED, FAILED_CHECK, INVALID_POSITION }

    /** What is known where only the epoch in force is. */
    static Epochs only(UUID epoch) {
        return new Epochs(List.of(new Epoch(epoch, 0)));
    }

    /** The newest of these; null unless there are any, all are different, and their offsets rise. */
    static Epochs of(List<Epoch> rows) {
        List<Epoch> kept = List.copyOf(rows.subList(Math.max(0, rows.size() - MOST), rows.size()));
        Set<UUID> ids = new HashSet<>();
        long before = 0;
        for (Epoch row : kept) {
            if (row.firstOffset < before || !ids.add(row.id)) {
                return null;
            }
            before = row.firstOffset;
        }
        return kept.isEmpty() ? null : new Epochs(kept);
    }

    UUID last() {
        return rows.get(rows.size() - 1).id;
    }

    long lastFirstOffset() {
        return rows.get(rows.size() - 1).firstOffset;
    }

    /** Null as {@link #of} is. */
    Epochs begun(UUID epoch, long firstOffset) {
        List<Epoch> more = new ArrayList<>(rows);
        more.add(new Epoch(epoch, firstOffset));
        return of(more);
    }

    /** The epoch that followed this one; null if it is the last or unknown. */
    private Epoch after(UUID epoch) {
        for (int number = 0; number < rows.size() - 1; number++) {
            if (rows.get(number).id.equals(epoch)) {
                return rows.get(number + 1);
            }
        }
        return null;
    }

    /**
     * What the position is to this history, whose last record is at this offset.
     *
     * @param storeTime null: no position is INVALID
     */
    Standing judge(Token position, long lastOffset, Instant storeTime) {
        if (position.epoch().equals(last())) {
            return position.offset() <= lastOffset ? Standing.PART : Standing.AHEAD;
        }
        Epoch following = after(position.epoch());
        if (following != null) {
            return position.offset() <= following.firstOffset ? Standing.PART : Standing.LOST;
        }
        if (storeTime != null && isFarAhead(position.epoch(), storeTime)) {
            return Standing.INVALID;
        }
        return isLater(last(), position.epoch()) ? Standing.LOST : Standing.AHEAD;
    }

    /** Whether the position is a part of the history up to the offset. */
    boolean has(Token position, long offset) {
        return position.offset() <= offset && judge(position, offset, null) == Standing.PART;
    }

    /**
     * Whether a follower that holds a position (or null) may take a snapshot, whose history has these epochs.
     *
     * <p>INVARIANT: an older state never replaces a newer one: a right that was revoked in between would be back.
     */
    static boolean mayReplace(Token held, Token offered, Epochs epochs, Cause cause) {
        if (held == null || cause == Cause.NOTHING_HELD || cause == Cause.INVALID_POSITION
            || isLater(offered.epoch(), held.epoch())) {
            return true;
        }
        return (cause == Cause.TRIMMED || cause == Cause.FAILED_CHECK) && epochs.has(held, offered.offset());
    }

    /** Whether it is known to have begun after the other one; a store's first epoch is never later. */
    static boolean isLater(UUID epoch, UUID than) {
        if (epoch.version() != RISING) {
            return false;
        }
        int high = Long.compareUnsigned(epoch.getMostSignificantBits(), than.getMostSignificantBits());
        int low = Long.compareUnsigned(epoch.getLeastSignificantBits(), than.getLeastSignificantBits());
        return than.version() != RISING || high > 0 || high == 0 && low > 0;
    }

    private static boolean isFarAhead(UUID epoch, Instant storeTime) {
        return epoch.version() == RISING
            && epoch.getMostSignificantBits() >>> TIME_SHIFT > storeTime.toEpochMilli() + AHEAD_MS;
    }
}
