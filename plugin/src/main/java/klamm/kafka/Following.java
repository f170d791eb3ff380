package klamm.kafka;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import klamm.kafka.Epochs.Cause;
import klamm.kafka.Epochs.Epoch;

/**
 * How a follower goes on: which URL it asks for what, which snapshot it believes, and when it leaves a stream. What the
 * service's follower does by app/core/following.py, said again; one table of cases tests both
 * (tests/following/cases.jsonl).
 *
 * <p>The URLs are numbered from 0. Time is in seconds of a clock that never goes back. Methods that return a boolean
 * say whether the stream is read on; if not, close it and ask what {@link #ask} says. Who drives it adds rests between
 * its questions. Of one thread.
 */
final class Following {
    /** A stream is left when no bookmark has come for so long, whatever else came. */
    static final double NO_BOOKMARK_S = 10;
    /** From this age on, other URLs are probed. */
    static final double STALE_S = 10;
    /** So much fresher another URL must be to be followed instead. */
    static final double FRESHER_S = 5;
    /** At most one change of URL in this time, unless the stream broke. */
    static final double STAY_S = 10;
    static final double PROBE_EVERY_S = 5;
    /** For so long the answer to a probe is used. */
    static final double PROBED_S = 30;
    /** The first event must come within this time: a service that is behind waits some seconds before it says so. */
    static final double OPENING_S = 16;
    /**
     * A snapshot must be complete within this time, and a second more for so many ACLs of it that have come. A promise
     * alone gains no time: who promises a million ACLs and then stalls would hold a follower for minutes.
     */
    static final double SNAPSHOT_S = 15;
    static final double ACLS_PER_S = 2_000;
    /** A snapshot may have this many bytes, and so many more for each row that it promises. */
    static final long SNAPSHOT_BYTES = 1 << 20;
    static final long BYTES_PER_ROW = 512 << 10;

    /**
     * The request to send next.
     *
     * @param after the changes after this position; null: a snapshot
     * @param cause why a snapshot is needed; null for changes
     */
    record Ask(int url, Token after, Cause cause) {}

    /** What to do with the stream that is being read. */
    enum Action {
        /** Read on. */
        STAY,
        /** Close it, and ask what {@link #ask} says. */
        LEAVE,
        /** Ask the URL that {@link #probeUrl} names how old its state is, and read on. */
        PROBE
    }

    /** What the header of a snapshot has promised, and what has come of it. */
    private static final class Promise {
        final Token token;
        final Epochs epochs;
        final long acls;
        final long configs;
        final double beganAt;
        long aclsCame;
        long bytesCame;

        Promise(Token token, Epochs epochs, long acls, long configs, double beganAt) {
            this.beganAt = beganAt;
            this.token = token;
            this.epochs = epochs;
            this.acls = acls;
            this.configs = configs;
        }

        boolean hasRoomFor(long size) {
            bytesCame += size;
            // In double precision, as a promise of 2^62 rows would overflow.
            return bytesCame <= SNAPSHOT_BYTES + ((double) acls + configs) * BYTES_PER_ROW;
        }
    }

    /** @param equalAt when its state equalled the head of the store */
    private record Probed(double equalAt, double askedAt) {}

    private final int urls;
    private Token held;
    private Epochs epochs;
    private int probeUrl = -1;
    private int url;
    private Cause cause;
    private Promise promise;
    /** When the stream is left if nothing that counts has come; null: there is no stream. */
    private Double deadline;
    private Double equalAt;
    /** Whether the stream has said how old its state is. */
    private boolean isTold;
    /** When a stream that had not broken was last left for a fresher one. */
    private Double changedAt;
    private final Map<Integer, Probed> probed = new HashMap<>();
    private Double probedAt;

    /** @param held null: nothing is held yet */
    Following(int urls, Token held) {
        this.urls = urls;
        this.held = held;
        this.epochs = held == null ? null : Epochs.only(held.epoch());
    }

    /** The position up to which everything is held; null if nothing is. */
    Token held() {
        return held;
    }

    /** Of the history that is held, up to the position; null if nothing is. */
    Epochs epochs() {
        return epochs;
    }

    int probeUrl() {
        return probeUrl;
    }

    /** How old the state is that is held; null until somebody has said so. */
    Double ageS(double now) {
        return equalAt == null ? null : Math.max(0, now - equalAt);
    }

    /** How long the stream may still be without what counts; nothing if there is no stream. */
    double leftS(double now) {
        return deadline == null ? 0 : Math.max(0, deadline - now);
    }

    Ask ask() {
        if (held == null) {
            return new Ask(url, null, cause == null ? Cause.NOTHING_HELD : cause);
        }
        return cause == null ? new Ask(url, held, null) : new Ask(url, null, cause);
    }

    /**
     * Goes on from a state of one's own, such as a state file's.
     *
     * @param equalAt null: nobody knows
     */
    void resume(Token held, Epochs epochs, Double equalAt) {
        this.held = held;
        this.epochs = epochs;
        this.equalAt = equalAt;
    }

    // What the request was answered.

    /** The request was accepted, and its stream begins. */
    void opened(double now) {
        promise = null;
        isTold = false;
        deadline = now + (ask().after == null ? OPENING_S : NO_BOOKMARK_S);
    }

    /** @param code by which the request was refused; null: it is none of Klamm's, or nobody could be reached */
    void refused(String code, double now) {
        Cause why = causeOf(code);
        if (why != null && ask().after != null) {
            cause = why;
            deadline = null;
        } else {
            broke(now);
        }
    }

    /** Null unless the code says that the position can't be followed there. */
    private static Cause causeOf(String code) {
        return code == null ? null : switch (code) {
            case "TOKEN_EPOCH_MISMATCH" -> Cause.LOST;
            case "TOKEN_EPOCH_INVALID" -> Cause.INVALID_POSITION;
            case "OFFSET_OUT_OF_RANGE" -> Cause.TRIMMED;
            default -> null;
        };
    }

    // What the stream has brought.

    /**
     * The header of a snapshot.
     *
     * @param rows its epochs; may be empty, as an older service does not send them
     */
    boolean snapshot(Token token, List<Epoch> rows, long acls, long configs, double now) {
        Cause why = ask().cause;
        if (promise != null || why == null || acls < 0 || configs < 0 || deadline == null) {
            return fail(now);
        }
        Epochs table = table(token, rows);
        if (table == null || !Epochs.mayReplace(held, token, table, why)) {
            return fail(now);
        }
        promise = new Promise(token, table, acls, configs, now);
        deadline = now + SNAPSHOT_S;
        return true;
    }

    /** The epochs of a snapshot; null if they are not those of its token. */
    private static Epochs table(Token token, List<Epoch> rows) {
        if (rows.isEmpty()) {
            return Epochs.only(token.epoch());
        }
        Epochs table = Epochs.of(rows);
        boolean fits =
            table != null && table.last().equals(token.epoch()) && table.lastFirstOffset() <= token.offset();
        return fits ? table : null;
    }

    /** A part of the snapshot: so many ACLs in so many bytes. */
    boolean acls(int count, long size, double now) {
        if (promise == null) {
            return fail(now);
        }
        promise.aclsCame += count;
        if (promise.aclsCame > promise.acls) {
            return fail(now);
        }
        deadline = promise.beganAt + SNAPSHOT_S + promise.aclsCame / ACLS_PER_S;
        return promise.hasRoomFor(size) || fail(now);
    }

    boolean configs(int count, long size, double now) {
        return promise != null && count <= promise.configs && promise.hasRoomFor(size) || fail(now);
    }

    /** The end of the snapshot, whose rows have passed all checks. */
    boolean synced(Token token, double now) {
        if (promise == null || !token.equals(promise.token) || promise.aclsCame != promise.acls) {
            return fail(now);
        }
        held = promise.token;
        epochs = promise.epochs;
        promise = null;
        cause = null;
        // INVARIANT: a snapshot is no proof of its age; only a bookmark says how old its sender's state is.
        deadline = now + NO_BOOKMARK_S;
        return true;
    }

    boolean epoch(UUID epoch, long firstOffset, double now) {
        if (!isFollowing() || firstOffset != held.offset() || !Epochs.isLater(epoch, epochs.last())) {
            return fail(now);
        }
        Epochs more = epochs.begun(epoch, firstOffset);
        if (more == null) {
            return fail(now);
        }
        epochs = more;
        held = new Token(epoch, held.offset());
        return true;
    }

    /** A whole transaction, whose hash follows from what is held. */
    boolean transaction(Token token, long firstOffset, double now) {
        if (!isFollowing() || !token.epoch().equals(held.epoch()) || firstOffset != held.offset() + 1
            || token.offset() < firstOffset) {
            return fail(now);
        }
        held = token;
        return true;
    }

    /** Where the stream stands, with the hash of what is held; so old is its sender's state. */
    boolean bookmark(Token token, double ageS, double now) {
        if (!isFollowing() || !token.equals(held)) {
            return fail(now);
        }
        double at = now - Math.max(0, ageS);
        equalAt = equalAt == null ? at : Math.max(at, equalAt);
        isTold = true;
        deadline = now + NO_BOOKMARK_S;
        return true;
    }

    /** Something did not fit, or could not be read: a hash, a digest, a record of a later version. */
    void failedCheck(double now) {
        fail(now);
    }

    /** The stream has ended, or nobody was reached: the next URL is asked to go on. */
    void broke(double now) {
        // INVARIANT: who did not choose the stream that follows may leave it as soon as it is known to be old.
        changedAt = null;
        probed.remove(url);
        change(freshestOther(now));
    }

    // What time brings.

    /** Call this at least every second, and after each event. Unknown events change nothing here. */
    Action check(double now) {
        if (deadline == null) {
            return Action.STAY;
        }
        if (now > deadline) {
            broke(now);
            return Action.LEAVE;
        }
        if (urls == 1 || !isTold || equalAt == null || ageS(now) <= STALE_S) {
            return Action.STAY;
        }
        int fresher = fresher(now);
        if (fresher >= 0 && (changedAt == null || now - changedAt >= STAY_S)) {
            changedAt = now;
            change(fresher);
            return Action.LEAVE;
        }
        if (probedAt != null && now - probedAt < PROBE_EVERY_S) {
            return Action.STAY;
        }
        probedAt = now;
        probeUrl = (Math.max(probeUrl, 0) + 1) % urls;
        if (probeUrl == url) {
            probeUrl = (probeUrl + 1) % urls;
        }
        return Action.PROBE;
    }

    /**
     * What a {@link Probe} of another URL brought, or by which code the position was refused there. Who says that the
     * position is no part of the history knows the history's head.
     *
     * @param ageS null: it did not say
     */
    void probed(int url, String code, Double ageS, double now) {
        Double age = causeOf(code) == null ? ageS : Double.valueOf(0);
        if (age == null) {
            probed.remove(url);
        } else {
            probed.put(url, new Probed(now - Math.max(0, age), now));
        }
    }

    private boolean isFollowing() {
        return deadline != null && promise == null && cause == null && held != null;
    }

    /** False. After a snapshot that failed the next URL is asked; else this one, for a snapshot. */
    private boolean fail(double now) {
        if (deadline == null || cause != null || held == null) {
            broke(now);
        } else {
            cause = Cause.FAILED_CHECK;
            promise = null;
            deadline = null;
        }
        return false;
    }

    private void change(int to) {
        url = to;
        cause = null;
        promise = null;
        deadline = null;
    }

    /** The URL with the freshest state, if that is fresher enough than what is held; else -1. */
    private int fresher(double now) {
        int best = freshestKnown(now);
        return best >= 0 && probed.get(best).equalAt - equalAt >= FRESHER_S ? best : -1;
    }

    /** The next URL; where others have said how old their state is, the freshest of them. */
    private int freshestOther(double now) {
        int best = freshestKnown(now);
        return best >= 0 ? best : (url + 1) % urls;
    }

    /** Of the other URLs, the one whose answer to a probe was the freshest; -1 if none has answered lately. */
    private int freshestKnown(double now) {
        int best = -1;
        for (Map.Entry<Integer, Probed> each : probed.entrySet()) {
            boolean isUsed = each.getKey() != url && now - each.getValue().askedAt <= PROBED_S;
            if (isUsed && (best < 0 || each.getValue().equalAt > probed.get(best).equalAt)) {
                best = each.getKey();
            }
        }
        return best;
    }
}
