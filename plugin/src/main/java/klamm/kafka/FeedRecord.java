package klamm.kafka;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.DateTimeException;
import java.time.Instant;
import java.util.Iterator;
import java.util.Set;
import java.util.UUID;

/**
 * A record of the feed (docs/feed.md).
 *
 * @param lastOffset of its transaction
 * @param acl null in a ConfigRecord, which has name and value
 */
record FeedRecord(
    String kind, int hashVersion, long offset, long lastOffset, long recordedAtMicros, String actor, String comment,
    Acl acl, String name, String value) {

    static final String CREATED = "AccessControlEntryRecord";
    static final String REMOVED = "RemoveAccessControlEntryRecord";
    static final String CONFIG = "ConfigRecord";
    private static final int LAST_HASH_VERSION = 2;
    private static final Set<String> FIELDS = Set.of(
        "kind", "hash_version", "actor", "comment", "acl", "offset", "name", "value", "id", "resource_type",
        "resource_name", "pattern_type", "principal", "host", "operation", "permission_type", "expires_at", "owner");

    static FeedRecord of(JsonNode fields, long offset, long lastOffset, Instant recordedAt) throws FeedException {
        String kind = text(fields, "kind");
        boolean isConfig = kind.equals(CONFIG);
        if (!isConfig && !kind.equals(CREATED) && !kind.equals(REMOVED)) {
            throw new UnknownDataException("the record " + offset + " is of the kind `" + kind + "`");
        }
        long version = number(fields, "hash_version");
        if (version < 1 || version > LAST_HASH_VERSION) {
            throw new UnknownDataException("the record " + offset + " has the hash version " + version);
        }
        long micros = Math.addExact(
            Math.multiplyExact(recordedAt.getEpochSecond(), 1_000_000L), recordedAt.getNano() / 1_000);
        FeedRecord record = new FeedRecord(
            kind, (int) version, offset, lastOffset, micros, text(fields, "actor"),
            optional(fields, "comment"), isConfig ? null : acl(fields.path("acl")),
            isConfig ? text(fields, "name") : null, isConfig ? optional(fields, "value") : null);
        if (record.hashVersion != record.rightVersion()) {
            throw new FeedException("the record " + offset + " names a hash version that is not its own");
        }
        return record;
    }

    private int rightVersion() {
        return comment != null || acl != null && acl.terms() != null ? 2 : 1;
    }

    static Acl acl(JsonNode fields) throws FeedException {
        UUID id = uuid(fields, "id");
        Instant ends = instant(fields, "expires_at");
        if (ends != null && ends.getNano() != 0) {
            throw new FeedException("the ACL " + id + " ends within a second");
        }
        String owner = optional(fields, "owner");
        Acl.Terms terms = ends == null && owner == null
            ? null : new Acl.Terms(ends == null ? null : ends.getEpochSecond(), owner);
        Acl acl = new Acl(
            id.getMostSignificantBits(), id.getLeastSignificantBits(),
            code(fields, "resource_type", Codes.RESOURCE_TYPES), code(fields, "pattern_type", Codes.PATTERN_TYPES),
            code(fields, "operation", Codes.OPERATIONS), code(fields, "permission_type", Codes.PERMISSION_TYPES),
            text(fields, "resource_name"), text(fields, "principal"), text(fields, "host"), terms);
        check(acl);
        return acl;
    }

    private static byte code(JsonNode fields, String name, Codes codes) throws FeedException {
        String text = text(fields, name);
        Byte code = codes.code(text);
        if (code == null) {
            throw new UnknownDataException("`" + name + "` is `" + text + "`");
        }
        return code;
    }

    /** What no ACL can have is refused also if no digest tells that it was never stored. */
    private static void check(Acl acl) throws FeedException {
        boolean isKept = !acl.resourceName().isEmpty() && acl.principal().indexOf(':') >= 0 && !acl.host().isEmpty();
        for (String text : new String[] {acl.resourceName(), acl.principal(), acl.host()}) {
            isKept &= text.indexOf('\0') < 0;
        }
        if (!isKept) {
            throw new FeedException(
                "the ACL " + new UUID(acl.idHigh(), acl.idLow()) + " has a value that no ACL can have");
        }
    }

    /**
     * A field of an ACL or a record that this version does not know; null if there is none. It changes nothing where
     * the hash or the digest is right, as they cover all that a record says.
     */
    static String unknownField(JsonNode fields) {
        for (Iterator<String> names = fields.fieldNames(); names.hasNext();) {
            String name = names.next();
            if (!FIELDS.contains(name)) {
                return name;
            }
        }
        return fields.has("acl") ? unknownField(fields.path("acl")) : null;
    }

    static UUID uuid(JsonNode fields, String name) throws FeedException {
        String text = text(fields, name);
        try {
            return UUID.fromString(text);
        } catch (IllegalArgumentException notOne) {
            throw new FeedException("`" + name + "` is `" + text + "`, which is no UUID");
        }
    }

    static String text(JsonNode fields, String name) throws FeedException {
        JsonNode value = fields.path(name);
        if (!value.isTextual()) {
            throw new FeedException("an event lacks `" + name + "`");
        }
        return value.textValue();
    }

    static String optional(JsonNode fields, String name) throws FeedException {
        JsonNode value = fields.path(name);
        return value.isNull() || value.isMissingNode() ? null : text(fields, name);
    }

    static long number(JsonNode fields, String name) throws FeedException {
        JsonNode value = fields.path(name);
        if (!value.isIntegralNumber() || !value.canConvertToLong()) {
            throw new FeedException("an event lacks the number `" + name + "`");
        }
        return value.longValue();
    }

    /** Null if it is null or is not there. */
    static Instant instant(JsonNode fields, String name) throws FeedException {
        String text = optional(fields, name);
        try {
            return text == null ? null : Instant.parse(text);
        } catch (DateTimeException notATime) {
            throw new FeedException("`" + name + "` is `" + text + "`, which is no time");
        }
    }
}
