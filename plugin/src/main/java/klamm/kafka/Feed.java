package klamm.kafka;

import com.fasterxml.jackson.databind.JsonNode;
import java.math.BigInteger;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import klamm.kafka.Epochs.Epoch;

/**
 * Takes the feed's events in order and makes images of them, each proved by its hash and, where the store keeps one, by
 * its digest. Where an event stands in the history is {@link Following}'s to say, which is told of each one. Of one
 * thread.
 */
final class Feed {
    /** What an event was. */
    enum Kind { PART, IMAGE, CHANGE, BOOKMARK, END, UNKNOWN }

    private static final double MS_PER_S = 1_000;
    private static final long UNKNOWN_AGE_MS = Long.MAX_VALUE / 4_000_000;

    private final Following following;
    private final StoreTime time;
    private Image image;
    private Snapshot snapshot;
    private boolean isRefused;

    Feed(Following following, StoreTime time) {
        this.following = following;
        this.time = time;
    }

    /** The last proved image; null if there is none yet. */
    Image image() {
        return image;
    }

    /** Goes on from an image of one's own. */
    void resume(Image kept) {
        image = kept;
    }

    /** The stream begins anew; a snapshot that was not complete is forgotten. */
    void begin() {
        snapshot = null;
    }

    /**
     * Take an event, whose line had so many bytes. Raises FeedException for one that is damaged, or does not follow
     * from what is held: then the stream is to be left, and `following` knows what to ask.
     */
    Kind take(JsonNode event, int size, double now) throws FeedException {
        isRefused = false;
        try {
            return dispatch(event, size, now);
        } catch (ArithmeticException | FeedException fault) {
            snapshot = null;
            if (!isRefused) {
                following.failedCheck(now);
            }
            throw fault instanceof FeedException known
                ? known : new FeedException("a number or a time is out of range");
        }
    }

    private Kind dispatch(JsonNode event, int size, double now) throws FeedException {
        switch (FeedRecord.text(event, "type")) {
            case "snapshot":
                check(following.snapshot(token(event), epochs(event), FeedRecord.number(event, "acl_count"),
                    FeedRecord.number(event, "config_count"), now),
                    "a snapshot of an older state, or one that nobody has asked for");
                snapshot = new Snapshot(event);
                return Kind.PART;
            case "acls":
                check(following.acls(event.path("acls").size(), size, now),
                    "a snapshot has more ACLs or bytes than its header says");
                snapshot.takeAcls(event.path("acls"));
                return Kind.PART;
            case "configs":
                check(following.configs(event.path("configs").size(), size, now),
                    "a snapshot has more properties or bytes than its header says");
                snapshot.takeConfigs(event.path("configs"));
                return Kind.PART;
            case "synced":
                takeSynced(event, now);
                return Kind.IMAGE;
            case "epoch":
                takeEpoch(event, now);
                return Kind.CHANGE;
            case "transaction":
                takeTransaction(event, now);
                return Kind.CHANGE;
            case "bookmark":
                takeBookmark(event, now);
                return Kind.BOOKMARK;
            case "end":
                return Kind.END;
            default:
                return Kind.UNKNOWN;
        }
    }

    private void check(boolean isReadOn, String refusal) throws FeedException {
        if (!isReadOn) {
            isRefused = true;
            throw new FeedException(refusal);
        }
    }

    private static Token token(JsonNode event) throws FeedException {
        return Token.parse(FeedRecord.text(event, "token"));
    }

    private static List<Epoch> epochs(JsonNode header) throws FeedException {
        JsonNode rows = header.path("epochs");
        if (rows.size() > Epochs.MOST) {
            throw new FeedException("a snapshot has more than " + Epochs.MOST + " epochs");
        }
        List<Epoch> epochs = new ArrayList<>();
        for (JsonNode row : rows) {
            epochs.add(new Epoch(FeedRecord.uuid(row, "epoch"), FeedRecord.number(row, "first_offset")));
        }
        return epochs;
    }

    private void takeSynced(JsonNode event, double now) throws FeedException {
        Token token = token(event);
        if (snapshot == null) {
            check(following.synced(token, now), "the end of a snapshot that has not begun");
        }
        // INVARIANT: what is not proved is neither held nor an image.
        Image whole = snapshot.proved(event, Epochs.only(token.epoch()), token.offset(), time);
        check(following.synced(token, now), "a snapshot ends as another one than it began");
        image = whole.in(following.epochs());
        snapshot = null;
    }

    private void takeEpoch(JsonNode event, double now) throws FeedException {
        UUID epoch = FeedRecord.uuid(event, "epoch");
        check(following.epoch(epoch, FeedRecord.number(event, "first_offset"), now),
            "an epoch does not begin where the history that is held ends");
        image = image.in(following.epochs());
    }

    private void takeTransaction(JsonNode event, double now) throws FeedException {
        Token token = token(event);
        long first = FeedRecord.number(event, "first_offset");
        long last = FeedRecord.number(event, "last_offset");
        JsonNode all = event.path("records");
        if (image == null || last != token.offset() || all.isEmpty() || last - first + 1 != all.size()
            || event.path("left_out").asLong(0) != 0) {
            throw new FeedException("a transaction is not whole");
        }
        if (first != image.offset() + 1) {
            throw new FeedException("a transaction is not the one that comes next");
        }
        Image next = applied(event, records(event, first, last));
        check(following.transaction(token, first, now), "a transaction is of another epoch, or within a snapshot");
        image = next;
    }

    private static List<FeedRecord> records(JsonNode event, long first, long last) throws FeedException {
        Instant at = FeedRecord.instant(event, "recorded_at");
        if (at == null) {
            throw new FeedException("a transaction has no time");
        }
        List<FeedRecord> records = new ArrayList<>();
        for (JsonNode each : event.path("records")) {
            records.add(FeedRecord.of(each, first + records.size(), last, at));
        }
        return records;
    }

    private Image applied(JsonNode event, List<FeedRecord> records) throws FeedException {
        byte[] hash = image.hash();
        BigInteger digest = image.digest();
        Map<String, String> configs = new HashMap<>(image.configs());
        Index.Editor editor = new Index.Editor(image.index());
        for (FeedRecord record : records) {
            hash = Proof.chained(hash, record);
            digest = Proof.sum(digest, change(record, editor, configs));
        }
        if (!Proof.hex(hash).equals(FeedRecord.text(event, "hash"))) {
            for (JsonNode each : event.path("records")) {
                String name = FeedRecord.unknownField(each);
                if (name != null) {
                    throw new UnknownDataException("a record whose hash does not follow has the field `" + name + "`");
                }
            }
            throw new FeedException("the hash of a transaction does not follow from the one before");
        }
        FeedRecord last = records.get(records.size() - 1);
        return new Image(
            image.epochs(), last.offset(), hash, digest, Map.copyOf(configs), Rules.of(Map.of(), configs),
            editor.compiled(), time);
    }

    /** Make one change; returns by how much it moves the digest. */
    private static BigInteger change(FeedRecord record, Index.Editor editor, Map<String, String> configs)
        throws FeedException {
        if (record.acl() == null) {
            String before = record.value() == null
                ? configs.remove(record.name()) : configs.put(record.name(), record.value());
            return Proof.difference(
                Proof.ofConfig(record.name(), record.value()), Proof.ofConfig(record.name(), before));
        }
        Acl acl = record.acl();
        Acl stored = editor.find(acl);
        boolean isSame = stored != null && stored.idHigh() == acl.idHigh() && stored.idLow() == acl.idLow();
        if (record.kind().equals(FeedRecord.REMOVED)) {
            if (!isSame) {
                throw new FeedException("the record " + record.offset() + " removes an ACL that is not there");
            }
            editor.remove(acl);
            return Proof.difference(BigInteger.ZERO, Proof.ofRow(stored));
        }
        if (stored != null && !isSame) {
            throw new FeedException("the record " + record.offset() + " creates an ACL that is there");
        }
        editor.put(acl);
        return Proof.difference(Proof.ofRow(acl), stored == null ? BigInteger.ZERO : Proof.ofRow(stored));
    }

    private void takeBookmark(JsonNode event, double now) throws FeedException {
        Token token = token(event);
        String digest = FeedRecord.optional(event, "digest");
        if (image == null || !token.equals(image.token())) {
            throw new FeedException("a bookmark is not of the state that is held");
        }
        if (!FeedRecord.text(event, "hash").equals(Proof.hex(image.hash()))
            || digest != null && !digest.equals(Proof.hex(image.digest()))) {
            throw new FeedException("a bookmark states another hash or digest than that of the state that is held");
        }
        check(following.bookmark(token, event.path("age_ms").asLong(UNKNOWN_AGE_MS) / MS_PER_S, now),
            "a bookmark within a snapshot");
    }
}
