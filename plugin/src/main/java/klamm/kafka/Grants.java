package klamm.kafka;

import java.net.InetAddress;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The ACLs of one principal on one pattern, compiled. */
final class Grants {
    private static final Comparator<Acl> ORDER =
        Comparator.comparingInt(Acl::operation).thenComparing(Acl::host).thenComparingInt(Acl::permissionType);
    private static final Range[] NO_RANGES = {};
    private static final Acl[] NO_ACLS = {};

    final Acl[] acls;
    /** What holds for every client at any time. */
    private final long always;
    private final Conditions conditions;

    /** What holds for some clients, or for some time. */
    private record Conditions(Map<String, Long> texts, Range[] ranges, Acl[] ending) {
        long mask(InetAddress address, StoreTime time) {
            long mask = 0;
            if (!texts.isEmpty()) {
                Long found = texts.get(address.getHostAddress());
                mask = found == null ? 0 : found;
            }
            if (ranges.length > 0) {
                byte[] raw = address.getAddress();
                for (Range range : ranges) {
                    if (range.cidr.contains(raw)) {
                        mask |= range.mask;
                    }
                }
            }
            for (Acl acl : ending) {
                if (!time.hasEnded(acl.allowsUntil()) && isFrom(acl.host(), address)) {
                    mask |= Masks.of(acl);
                }
            }
            return mask;
        }
    }

    private record Range(Cidr cidr, long mask) {}

    private Grants(Acl[] acls, long always, Conditions conditions) {
        this.acls = acls;
        this.always = always;
        this.conditions = conditions;
    }

    /** Null if there are none. */
    static Grants of(Collection<Acl> all) {
        if (all.isEmpty()) {
            return null;
        }
        Acl[] acls = all.toArray(NO_ACLS);
        java.util.Arrays.sort(acls, ORDER);
        long always = 0;
        Map<String, Long> hosts = new HashMap<>();
        List<Acl> ending = new ArrayList<>();
        for (Acl acl : acls) {
            if (acl.allowsUntil() != null) {
                ending.add(acl);
            } else if (acl.host().equals(Acl.WILDCARD)) {
                always |= Masks.of(acl);
            } else {
                hosts.merge(acl.host(), Masks.of(acl), (one, other) -> one | other);
            }
        }
        if (hosts.isEmpty() && ending.isEmpty()) {
            return new Grants(acls, always, null);
        }
        List<Range> ranges = new ArrayList<>();
        hosts.forEach((host, mask) -> addRange(ranges, host, mask));
        hosts.keySet().removeIf(host -> host.indexOf('/') >= 0);
        return new Grants(
            acls, always, new Conditions(Map.copyOf(hosts), ranges.toArray(NO_RANGES), ending.toArray(NO_ACLS)));
    }

    private static void addRange(List<Range> ranges, String host, long mask) {
        Cidr cidr = host.indexOf('/') < 0 ? null : Cidr.parse(host);
        if (cidr != null) {
            ranges.add(new Range(cidr, mask));
        }
    }

    long mask(InetAddress address, StoreTime time) {
        return conditions == null ? always : always | conditions.mask(address, time);
    }

    /** The first ACL that has one of these bits for this client now; null if none has. */
    Acl first(long bits, InetAddress address, StoreTime time) {
        for (Acl acl : acls) {
            boolean ended = acl.allowsUntil() != null && time.hasEnded(acl.allowsUntil());
            if (!ended && (Masks.of(acl) & bits) != 0 && isFrom(acl.host(), address)) {
                return acl;
            }
        }
        return null;
    }

    private static boolean isFrom(String host, InetAddress address) {
        if (host.equals(Acl.WILDCARD)) {
            return true;
        }
        if (host.indexOf('/') < 0) {
            return host.equals(address.getHostAddress());
        }
        Cidr cidr = Cidr.parse(host);
        return cidr != null && cidr.contains(address.getAddress());
    }
}
