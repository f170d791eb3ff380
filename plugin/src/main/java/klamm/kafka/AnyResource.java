package klamm.kafka;

import java.net.InetAddress;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import org.apache.kafka.common.acl.AclOperation;

/**
 * Looks for a pattern on which an operation is allowed by name and that no pattern around it denies (KIP-504,
 * authorizeByResourceType).
 */
final class AnyResource {
    private final List<Patterns<Grants>> speaking;
    private final InetAddress from;
    private final StoreTime time;
    private final long allow;
    private final long deny;

    /** @param speaking all that speak of the caller */
    AnyResource(List<Patterns<Grants>> speaking, InetAddress from, StoreTime time, AclOperation operation) {
        this.speaking = speaking;
        this.from = from;
        this.time = time;
        this.allow = Masks.plainAllow(operation);
        this.deny = Masks.deny(operation);
    }

    boolean finds() {
        long wildcard = 0;
        for (Patterns<Grants> patterns : speaking) {
            wildcard |= patterns.wildcard() == null ? 0 : patterns.wildcard().mask(from, time);
        }
        if ((wildcard & deny) != 0) {
            return false;
        }
        return (wildcard & allow) != 0 || speaking.stream().anyMatch(this::findsIn);
    }

    private boolean findsIn(Patterns<Grants> patterns) {
        return findsPrefix(patterns.prefixes())
            || patterns.literals().any((name, grants) -> isAllowed(grants, name, true));
    }

    private boolean findsPrefix(Radix<Grants> prefixes) {
        Deque<Radix<Grants>> waiting = new ArrayDeque<>();
        waiting.add(prefixes);
        while (!waiting.isEmpty()) {
            Radix<Grants> node = waiting.removeLast();
            if (node.value != null && isAllowed(node.value, node.key.substring(0, node.end), false)) {
                return true;
            }
            // Below a denied prefix everything is denied.
            if (!denies(node.value)) {
                node.addChildren(waiting);
            }
        }
        return false;
    }

    private boolean isAllowed(Grants grants, String name, boolean isLiteral) {
        return (grants.mask(from, time) & allow) != 0
            && speaking.stream().noneMatch(patterns -> isDenied(patterns, name, isLiteral));
    }

    private boolean isDenied(Patterns<Grants> patterns, String name, boolean isLiteral) {
        for (Radix<Grants> node = patterns.prefixesOf(name); node != null; node = node.next(name)) {
            if (denies(node.value)) {
                return true;
            }
        }
        return isLiteral && denies(patterns.literals().get(name));
    }

    private boolean denies(Grants grants) {
        return grants != null && (grants.mask(from, time) & deny) != 0;
    }
}
