package klamm.kafka;

/** An event of the feed is damaged, or does not follow from what this replica holds. */
class FeedException extends Exception {
    private static final long serialVersionUID = 1;

    FeedException(String message) {
        super(message);
    }
}
