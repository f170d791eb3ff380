package klamm.kafka;

import java.net.InetAddress;
import klamm.kafka.Index.Principal;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;

/**
 * One caller against one index. Rules, in Kafka's order: any matching DENY forbids; any matching ALLOW permits; without
 * a single ACL on the resource allow.everyone.if.no.acl.found speaks; everything else is denied.
 */
final class Decisions {
    /** A result with the rule that gave it. */
    enum Verdict {
        SUPER_USER(true, "SuperUser"), DENIED_BY_ACL(false, "MatchingAcl"), ALLOWED_BY_ACL(true, "MatchingAcl"),
        DEFAULT_ALLOW(true, "DefaultAllow"), DEFAULT_DENY(false, "DefaultDeny");

        final boolean allowed;
        /** Kafka's word for it. */
        final String rule;

        Verdict(boolean allowed, String rule) {
            this.allowed = allowed;
            this.rule = rule;
        }
    }

    private Decisions() {}

    /** This decides, and allocates nothing but where an ACL's host makes it look at the client's address. */
    static Verdict decide(Image image, Principal own, InetAddress from, AclOperation operation, int type, String name) {
        Index index = image.index();
        StoreTime time = image.time();
        // INVARIANT: whatever may deny has been looked through to its end before anything is allowed.
        long mask = mask(own, from, type, name, time) | mask(index.everyone(), from, type, name, time);
        if ((mask & Masks.deny(operation)) != 0) {
            return Verdict.DENIED_BY_ACL;
        }
        if ((mask & Masks.allow(operation)) != 0) {
            return Verdict.ALLOWED_BY_ACL;
        }
        boolean open = image.rules().allowEveryoneIfNoAclFound() && !index.covers(type, name);
        return open ? Verdict.DEFAULT_ALLOW : Verdict.DEFAULT_DENY;
    }

    static Principal own(Index index, KafkaPrincipal principal) {
        return index.principal(principal.getPrincipalType(), principal.getName());
    }

    private static long mask(Principal principal, InetAddress from, int type, String name, StoreTime time) {
        Patterns<Grants> patterns = principal == null ? null : principal.on(type);
        if (patterns == null) {
            return 0;
        }
        long mask = patterns.wildcard() == null ? 0 : patterns.wildcard().mask(from, time);
        Grants literal = patterns.literals().get(name);
        if (literal != null) {
            mask |= literal.mask(from, time);
        }
        for (Radix<Grants> node = patterns.prefixesOf(name); node != null; node = node.next(name)) {
            if (node.value != null) {
                mask |= node.value.mask(from, time);
            }
        }
        return mask;
    }

    /** The ACL that the audit log names for this verdict; null unless an ACL has decided. */
    static Acl decidingAcl(
        Verdict verdict, Image image, Principal own, InetAddress from, AclOperation operation, int type, String name) {
        if (verdict != Verdict.DENIED_BY_ACL && verdict != Verdict.ALLOWED_BY_ACL) {
            return null;
        }
        long bits = verdict.allowed ? Masks.allow(operation) : Masks.deny(operation);
        Acl found = mostSpecific(own, bits, from, type, name, image.time());
        return found != null ? found : mostSpecific(image.index().everyone(), bits, from, type, name, image.time());
    }

    private static Acl mostSpecific(
        Principal principal, long bits, InetAddress from, int type, String name, StoreTime time) {
        Patterns<Grants> patterns = principal == null ? null : principal.on(type);
        if (patterns == null) {
            return null;
        }
        Acl found = patterns.wildcard() == null ? null : patterns.wildcard().first(bits, from, time);
        for (Radix<Grants> node = patterns.prefixesOf(name); node != null; node = node.next(name)) {
            Acl longer = node.value == null ? null : node.value.first(bits, from, time);
            found = longer == null ? found : longer;
        }
        Grants literal = patterns.literals().get(name);
        Acl exact = literal == null ? null : literal.first(bits, from, time);
        return exact == null ? found : exact;
    }

    /** Whether the caller may do this on any resource of the type at all, as Kafka's default method finds it. */
    static boolean onAnyResource(
        Image image, Principal own, InetAddress from, AclOperation operation, ResourceType resourceType) {
        int type = resourceType.code();
        // Kafka asks for this very name first, so implied operations and the default come in by it.
        if (decide(image, own, from, operation, type, "hardcode").allowed) {
            return true;
        }
        Principal everyone = image.index().everyone();
        AnyResource search = new AnyResource(
            on(own, type), own == everyone ? null : on(everyone, type), from, image.time(), operation);
        return search.finds();
    }

    private static Patterns<Grants> on(Principal principal, int type) {
        return principal == null ? null : principal.on(type);
    }
}
