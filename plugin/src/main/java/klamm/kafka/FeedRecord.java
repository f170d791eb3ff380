package klamm.kafka;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.DateTimeException;
import java.time.Instant;
import java.util.UUID;
import java.util.function.Function;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourceType;

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

    static FeedRecord of(JsonNode fields, long offset, long lastOffset, Instant recordedAt) throws FeedException {
        String kind = text(fields, "kind");
        boolean isConfig = kind.equals(CONFIG);
        if (!isConfig && !kind.equals(CREATED) && !kind.equals(REMOVED)) {
            throw new FeedException("the record " + offset + " is of a kind that this plugin does not know: " + kind);
        }
        long micros = Math.addExact(
            Math.multiplyExact(recordedAt.getEpochSecond(), 1_000_000L), recordedAt.getNano() / 1_000);
        FeedRecord record = new FeedRecord(
            kind, (int) number(fields, "hash_version"), offset, lastOffset, micros, text(fields, "actor"),
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
        UUID id = parsed(fields, "id", UUID::fromString);
        Instant ends = instant(fields, "expires_at");
        if (ends != null && ends.getNano() != 0) {
            throw new FeedException("the ACL " + id + " ends within a second");
        }
        String owner = optional(fields, "owner");
        Acl.Terms terms = ends == null && owner == null
            ? null : new Acl.Terms(ends == null ? null : ends.getEpochSecond(), owner);
        Acl acl = new Acl(
            id.getMostSignificantBits(), id.getLeastSignificantBits(),
            parsed(fields, "resource_type", ResourceType::valueOf).code(),
            parsed(fields, "pattern_type", PatternType::valueOf).code(),
            parsed(fields, "operation", AclOperation::valueOf).code(),
            parsed(fields, "permission_type", AclPermissionType::valueOf).code(),
            text(fields, "resource_name"), text(fields, "principal"), text(fields, "host"), terms);
        if (acl.resourceType() >= Index.TYPES || acl.operation() >= Masks.CODES) {
            throw new FeedException("the ACL " + id + " is of a type or an operation that this plugin has no place for");
        }
        return acl;
    }

    private static <T> T parsed(JsonNode fields, String name, Function<String, T> parse) throws FeedException {
        String text = text(fields, name);
        try {
            return parse.apply(text);
        } catch (IllegalArgumentException notOne) {
            throw new FeedException("`" + name + "` is `" + text + "`, which this plugin does not know");
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
