package klamm.kafka;

import java.util.UUID;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The position of a state in the store's history: an epoch and an offset in it. */
record Token(UUID epoch, long offset) {
    private static final Pattern FORM = Pattern.compile(
        "([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}):(0|[1-9][0-9]{0,18})");
    private static final int MOST_SHOWN = 80;

    static Token parse(String text) throws FeedException {
        Matcher found = FORM.matcher(text);
        if (found.matches()) {
            try {
                return new Token(UUID.fromString(found.group(1)), Long.parseLong(found.group(2)));
            } catch (NumberFormatException tooLarge) {
                // Said below.
            }
        }
        throw new FeedException("`" + text.substring(0, Math.min(MOST_SHOWN, text.length())) + "` is no token");
    }

    @Override
    public String toString() {
        return epoch + ":" + offset;
    }
}
