package klamm.kafka;

import java.net.InetAddress;
import java.util.ArrayDeque;
import java.util.Deque;
import klamm.kafka.Index.Patterns;
import org.apache.kafka.common.acl.AclOperation;

/**
 * Looks for a pattern on which an operation is allowed by name and that no pattern around it denies (KIP-504,
 * authorizeByResourceType).
 */
final class AnyResource {
    private final Patterns<Grants> own;
    private final Patterns<Grants> everyone;
    private final InetAddress from;
    private final StoreTime time;
    private final long allow;
    private final long deny;

    AnyResource(
        Patterns<Grants> own, Patterns<Grants> everyone, InetAddress from, StoreTime time, AclOperation operation) {
        this.own = own;
        this.everyone = everyone;
        this.from = from;
        this.time = time;
        this.allow = Masks.plainAllow(operation);
        this.deny = Masks.deny(operation);
    }

    boolean finds() {
        long wildcard = wildcard(own) | wildcard(everyone);
        if ((wildcard & deny) != 0) {
            return false;
        }
        return (wildcard & allow) != 0 || findsIn(own) || findsIn(everyone);
    }

    private long wildcard(Patterns<Grants> patterns) {
        return patterns == null || patterns.wildcard() == null ? 0 : patterns.wildcard().mask(from, time);
    }

    private boolean findsIn(Patterns<Grants> patterns) {
        if (patterns == null) {
            return false;
        }
        Deque<Radix<Grants>> waiting = new ArrayDeque<>();
        waiting.add(patterns.names());
        while (!waiting.isEmpty()) {
            Radix<Grants> node = waiting.removeLast();
            if (isAllowed(node.prefixed, node, false) || isAllowed(node.literal, node, true)) {
                return true;
            }
            // Below a denied prefix everything is denied.
            if (node.prefixed == null || (node.prefixed.mask(from, time) & deny) == 0) {
                node.addChildren(waiting);
            }
        }
        return false;
    }

    private boolean isAllowed(Grants grants, Radix<Grants> node, boolean isLiteral) {
        if (grants == null || (grants.mask(from, time) & allow) == 0) {
            return false;
        }
        String name = node.key.substring(0, node.end);
        return !isDenied(own, name, isLiteral) && !isDenied(everyone, name, isLiteral);
    }

    private boolean isDenied(Patterns<Grants> patterns, String name, boolean isLiteral) {
        Radix<Grants> node = patterns == null ? null : patterns.names();
        while (node != null) {
            if (denies(node.prefixed) || isLiteral && node.end == name.length() && denies(node.literal)) {
                return true;
            }
            node = node.next(name);
        }
        return false;
    }

    private boolean denies(Grants grants) {
        return grants != null && (grants.mask(from, time) & deny) != 0;
    }
}
