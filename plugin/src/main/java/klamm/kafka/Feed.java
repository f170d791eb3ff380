package klamm.kafka;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.math.BigInteger;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/**
 * Takes the feed's events in order and makes images of them, each proved by its hash and, where the store keeps one, by
 * its digest. Of one thread.
 */
final class Feed {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** What an event was. */
    enum Kind { PART, IMAGE, CHANGE, BOOKMARK, END, UNKNOWN }

    private final StoreTime time;
    private Image image;
    private Snapshot snapshot;

    /** A snapshot that is not complete yet. */
    private static final class Snapshot {
        JsonNode header;
        Index index = Index.EMPTY;
        BigInteger digest = BigInteger.ZERO;
        Map<String, String> configs;
        final Map<String, String> texts = new HashMap<>();
    }

    Feed(StoreTime time) {
        this.time = time;
    }

    /** The last proved image; null if there is none yet. */
    Image image() {
        return image;
    }

    /** The stream begins anew; a snapshot that was not complete is forgotten. */
    void begin() {
        snapshot = null;
    }

    static JsonNode parse(byte[] line, int length) throws FeedException {
        try {
            JsonNode event = JSON.readTree(line, 0, length);
            if (event != null && event.isObject()) {
                return event;
            }
        } catch (IOException notJson) {
            // Its text repeats the line, which may be long.
        }
        throw new FeedException("a line is no JSON object");
    }

    Kind take(JsonNode event) throws FeedException {
        try {
            switch (FeedRecord.text(event, "type")) {
                case "snapshot":
                    snapshot = new Snapshot();
                    snapshot.header = event;
                    return Kind.PART;
                case "acls":
                    takeAcls(event.path("acls"));
                    return Kind.PART;
                case "configs":
                    begun().configs = texts(event.path("configs"));
                    return Kind.PART;
                case "synced":
                    image = proved(event);
                    snapshot = null;
                    return Kind.IMAGE;
                case "transaction":
                    image = applied(event);
                    return Kind.CHANGE;
                case "bookmark":
                    check(event);
                    return Kind.BOOKMARK;
                case "end":
                    return Kind.END;
                default:
                    return Kind.UNKNOWN;
            }
        } catch (ArithmeticException outOfRange) {
            throw new FeedException("a number or a time is out of range");
        }
    }

    private Snapshot begun() throws FeedException {
        if (snapshot == null) {
            throw new FeedException("a part of a snapshot that has not begun");
        }
        return snapshot;
    }

    private void takeAcls(JsonNode acls) throws FeedException {
        Snapshot to = begun();
        Index.Editor editor = new Index.Editor(to.index);
        for (JsonNode each : acls) {
            Acl acl = shared(FeedRecord.acl(each), to.texts);
            if (editor.find(acl) != null) {
                throw new FeedException("a snapshot has an ACL twice");
            }
            editor.put(acl);
            to.digest = Proof.sum(to.digest, Proof.ofRow(acl));
        }
        to.index = editor.index();
    }

    /** The same ACL, whose texts are the first of their kind: millions of ACLs have few different ones. */
    private static Acl shared(Acl acl, Map<String, String> texts) {
        return new Acl(
            acl.idHigh(), acl.idLow(), acl.resourceType(), acl.patternType(), acl.operation(), acl.permissionType(),
            texts.computeIfAbsent(acl.resourceName(), text -> text),
            texts.computeIfAbsent(acl.principal(), text -> text), texts.computeIfAbsent(acl.host(), text -> text),
            acl.terms());
    }

    private static Map<String, String> texts(JsonNode fields) throws FeedException {
        Map<String, String> texts = new HashMap<>();
        for (Iterator<String> names = fields.fieldNames(); names.hasNext();) {
            String name = names.next();
            texts.put(name, FeedRecord.text(fields, name));
        }
        return texts;
    }

    private Image proved(JsonNode synced) throws FeedException {
        Snapshot whole = begun();
        if (whole.configs == null || FeedRecord.number(whole.header, "acl_count") != whole.index.count()
            || FeedRecord.number(whole.header, "config_count") != whole.configs.size()) {
            throw new FeedException("a snapshot is not whole");
        }
        for (Map.Entry<String, String> each : whole.configs.entrySet()) {
            whole.digest = Proof.sum(whole.digest, Proof.ofConfig(each.getKey(), each.getValue()));
        }
        for (JsonNode event : List.of(whole.header, synced)) {
            String stated = FeedRecord.optional(event, "digest");
            if (stated != null && !stated.equals(Proof.hex(whole.digest))) {
                throw new FeedException("the digest of a snapshot is not that of its rows");
            }
        }
        String token = FeedRecord.text(synced, "token");
        byte[] hash = hash(FeedRecord.text(synced, "hash"));
        if (!token.equals(FeedRecord.text(whole.header, "token"))
            || !Proof.hex(hash).equals(FeedRecord.text(whole.header, "hash"))) {
            throw new FeedException("a snapshot ends as another one than it began");
        }
        String epoch = epochOf(token);
        long offset = offsetOf(token);
        if (image != null && image.epoch().equals(epoch) && offset < image.offset()) {
            // INVARIANT: within an epoch no image is followed by an older one, in which a revoked right would be back.
            throw new FeedException("a snapshot is older than the state that is held");
        }
        return new Image(
            epoch, offset, hash, whole.digest, Map.copyOf(whole.configs), Rules.of(Map.of(), whole.configs),
            whole.index.compiled(), time);
    }

    private static byte[] hash(String hex) throws FeedException {
        try {
            byte[] hash = java.util.HexFormat.of().parseHex(hex);
            if (hash.length == 32) {
                return hash;
            }
        } catch (IllegalArgumentException notHex) {
            // Said below.
        }
        throw new FeedException("a hash is not 64 hexadecimal digits");
    }

    static String epochOf(String token) throws FeedException {
        String epoch = token.substring(0, Math.max(0, token.lastIndexOf(':')));
        try {
            UUID.fromString(epoch);
            return epoch;
        } catch (IllegalArgumentException notOne) {
            throw new FeedException("a token has no epoch");
        }
    }

    static long offsetOf(String token) throws FeedException {
        try {
            return Long.parseLong(token.substring(token.lastIndexOf(':') + 1));
        } catch (NumberFormatException notOne) {
            throw new FeedException("a token has no offset");
        }
    }

    private Image applied(JsonNode event) throws FeedException {
        List<FeedRecord> records = records(event);
        byte[] hash = image.hash();
        BigInteger digest = image.digest();
        Map<String, String> configs = new HashMap<>(image.configs());
        Index.Editor editor = new Index.Editor(image.index());
        for (FeedRecord record : records) {
            hash = Proof.chained(hash, record);
            digest = Proof.sum(digest, change(record, editor, configs));
        }
        if (!Proof.hex(hash).equals(FeedRecord.text(event, "hash"))) {
            throw new FeedException("the hash of a transaction does not follow from the one before");
        }
        FeedRecord last = records.get(records.size() - 1);
        return new Image(
            image.epoch(), last.offset(), hash, digest, Map.copyOf(configs), Rules.of(Map.of(), configs),
            editor.compiled(), time);
    }

    private List<FeedRecord> records(JsonNode event) throws FeedException {
        long first = FeedRecord.number(event, "first_offset");
        long last = FeedRecord.number(event, "last_offset");
        JsonNode all = event.path("records");
        if (image == null || snapshot != null || first != image.offset() + 1 || all.isEmpty()
            || last - first + 1 != all.size() || event.path("left_out").asLong(0) != 0
            || !FeedRecord.text(event, "token").equals(image.epoch() + ":" + last)) {
            throw new FeedException("a transaction is not whole, or is not the one that comes next");
        }
        Instant at = FeedRecord.instant(event, "recorded_at");
        if (at == null) {
            throw new FeedException("a transaction has no time");
        }
        List<FeedRecord> records = new ArrayList<>(all.size());
        for (JsonNode each : all) {
            records.add(FeedRecord.of(each, first + records.size(), last, at));
        }
        return records;
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

    private void check(JsonNode bookmark) throws FeedException {
        if (image == null || !FeedRecord.text(bookmark, "token").equals(image.token())) {
            throw new FeedException("a bookmark is not of the state that is held");
        }
        String digest = FeedRecord.optional(bookmark, "digest");
        if (!FeedRecord.text(bookmark, "hash").equals(Proof.hex(image.hash()))
            || digest != null && !digest.equals(Proof.hex(image.digest()))) {
            throw new FeedException("a bookmark states another hash or digest than that of the state that is held");
        }
    }
}
