package klamm.kafka;

import java.net.InetAddress;
import java.util.ArrayList;
import java.util.List;
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
        if (own != null && own.groups() != null) {
            for (Principal group : own.groups()) {
                mask |= mask(group, from, type, name, time);
            }
        }
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
        String type = principal.getPrincipalType();
        return principal instanceof GroupPrincipal grouped
            ? index.principal(type, principal.getName(), grouped.groups())
            : index.principal(type, principal.getName());
    }

    private static long mask(Principal principal, InetAddress from, int type, String name, StoreTime time) {
        if (principal == null || !Index.isType(type)) {
            return 0;
        }
        if (principal.flat() != null) {
            long mask = FlatGrants.mask(principal.flat(), principal.shape(), type, name);
            if (mask >= 0) {
                return mask;
            }
        }
        Patterns<Grants> patterns = principal.on(type);
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

    /**
     * The ACL that the logs name for this verdict; null unless an ACL has decided. Of several it is that on the most
     * specific pattern, of these the caller's own before its groups' before that of {@code User:*}.
     */
    static Acl decidingAcl(
        Verdict verdict, Image image, Principal own, InetAddress from, AclOperation operation, int type, String name) {
        if (verdict != Verdict.DENIED_BY_ACL && verdict != Verdict.ALLOWED_BY_ACL) {
            return null;
        }
        long bits = verdict.allowed ? Masks.allow(operation) : Masks.deny(operation);
        StoreTime time = image.time();
        Acl found = mostSpecific(own, bits, from, type, name, time);
        if (own != null && own.groups() != null) {
            for (Principal group : own.groups()) {
                found = moreSpecific(found, mostSpecific(group, bits, from, type, name, time), name);
            }
        }
        return moreSpecific(found, mostSpecific(image.index().everyone(), bits, from, type, name, time), name);
    }

    private static Acl moreSpecific(Acl one, Acl other, String name) {
        return one != null && (other == null || rank(one, name) >= rank(other, name)) ? one : other;
    }

    private static int rank(Acl acl, String name) {
        if (acl.isPrefix()) {
            return acl.resourceName().length();
        }
        return acl.resourceName().equals(name) ? Integer.MAX_VALUE : 0;
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
        List<Patterns<Grants>> speaking = new ArrayList<>();
        add(own, type, speaking);
        if (own != null && own.groups() != null) {
            for (Principal group : own.groups()) {
                add(group, type, speaking);
            }
        }
        Principal everyone = image.index().everyone();
        if (own != everyone) {
            add(everyone, type, speaking);
        }
        return new AnyResource(speaking, from, image.time(), operation).finds();
    }

    private static void add(Principal principal, int type, List<Patterns<Grants>> speaking) {
        Patterns<Grants> patterns = principal == null ? null : principal.on(type);
        if (patterns != null) {
            speaking.add(patterns);
        }
    }
}
