package klamm.kafka;

/**
 * What the bookmarks of another URL say of its state. A bookmark that is followed by more is as old as the records that
 * were sent before it, not as the sender's state.
 */
final class Probe {
    private Double ageS;
    private Token token;

    /** True if more is read: not once it is fresh, or the sender had no more to send. */
    boolean bookmark(Token at, double saidAgeS) {
        boolean isLast = at.equals(token) || saidAgeS <= Following.STALE_S - Following.FRESHER_S;
        token = at;
        ageS = Math.max(0, saidAgeS);
        return !isLast;
    }

    /** Null until a bookmark has come. */
    Double ageS() {
        return ageS;
    }
}
