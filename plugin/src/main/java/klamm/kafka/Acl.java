package klamm.kafka;

import java.time.Instant;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/**
 * A stored ACL: its id, its seven fields (codes are Kafka's), and its terms.
 *
 * @param terms null if it has neither end nor owner
 */
record Acl(
    long idHigh, long idLow, byte resourceType, byte patternType, byte operation, byte permissionType,
    String resourceName, String principal, String host, Terms terms) {

    static final String WILDCARD = "*";
    static final byte PREFIXED = Codes.PATTERN_TYPES.code("PREFIXED");
    static final byte ALLOW = Codes.PERMISSION_TYPES.code("ALLOW");

    /**
     * What an ACL may have beside its fields.
     *
     * @param endsAt seconds since 1970 by the store's clock; null: it does not end
     * @param owner null: nobody said
     */
    record Terms(Long endsAt, String owner) {}

    /** What tells an ACL from others of the same principal on the same pattern. */
    record Identity(byte operation, byte permissionType, String host) {}

    boolean isPrefix() {
        return patternType == PREFIXED;
    }

    boolean allows() {
        return permissionType == ALLOW;
    }

    Identity identity() {
        return new Identity(operation, permissionType, host);
    }

    /** The second at which it stops to allow; null if it does not. A DENY holds until it is removed. */
    Long allowsUntil() {
        return allows() && terms != null ? terms.endsAt() : null;
    }

    Instant endsAt() {
        return terms == null || terms.endsAt() == null ? null : Instant.ofEpochSecond(terms.endsAt());
    }

    /**
     * Whether the Kafka that this runs in has a name for its operation. A broker's answer fails as a whole if one of
     * its ACLs has none.
     */
    boolean hasBinding() {
        return !AclOperation.fromCode(operation).isUnknown() && !ResourceType.fromCode(resourceType).isUnknown();
    }

    AclBinding binding() {
        return new AclBinding(
            new ResourcePattern(
                ResourceType.fromCode(resourceType), resourceName, PatternType.fromCode(patternType)),
            new AccessControlEntry(
                principal, host, AclOperation.fromCode(operation), AclPermissionType.fromCode(permissionType)));
    }

    /** As Kafka's audit log writes an ACL. */
    @Override
    public String toString() {
        return "StandardAcl(resourceType=" + Codes.RESOURCE_TYPES.name(resourceType) + ", resourceName=" + resourceName
            + ", patternType=" + Codes.PATTERN_TYPES.name(patternType) + ", principal=" + principal + ", host=" + host
            + ", operation=" + Codes.OPERATIONS.name(operation) + ", permissionType="
            + Codes.PERMISSION_TYPES.name(permissionType) + ")";
    }
}
