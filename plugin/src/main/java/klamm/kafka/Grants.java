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
    private static final Ending[] NO_ENDING = {};
    private static final Acl[] NO_ACLS = {};

    final Acl[] acls;
    /** What holds for every client at any time. */
    private final long always;
    private final Conditions conditions;

    /**
     * What holds for some clients, or for some time.
     *
     * @param hosts null if nothing holds for some clients at any time
     */
    private record Conditions(Hosts hosts, Ending[] ending) {
        long mask(InetAddress address, StoreTime time) {
            long mask = hosts == null ? 0 : hosts.mask(address);
            for (Ending each : ending) {
                if (!time.hasEnded(each.second)) {
                    mask |= each.hosts == null ? each.mask : each.hosts.mask(address);
                }
            }
            return mask;
        }
    }

    /** @param hosts null: everywhere */
    private record Ending(long second, long mask, Hosts hosts) {
        static Ending of(Acl acl) {
            long mask = Masks.of(acl);
            boolean isAnywhere = acl.host().equals(Acl.WILDCARD);
            return new Ending(acl.allowsUntil(), mask, isAnywhere ? null : new Hosts(Map.of(acl.host(), mask)));
        }
    }

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
        List<Ending> ending = new ArrayList<>();
        for (Acl acl : acls) {
            if (acl.allowsUntil() != null) {
                ending.add(Ending.of(acl));
            } else if (acl.host().equals(Acl.WILDCARD)) {
                always |= Masks.of(acl);
            } else {
                hosts.merge(acl.host(), Masks.of(acl), (one, other) -> one | other);
            }
        }
        if (hosts.isEmpty() && ending.isEmpty()) {
            return new Grants(acls, always, null);
        }
        return new Grants(
            acls, always, new Conditions(hosts.isEmpty() ? null : new Hosts(hosts), ending.toArray(NO_ENDING)));
    }

    /** The mask if it is the same for every client at any time, else {@link FlatGrants#IT_DEPENDS}. */
    long flatMask() {
        return conditions == null ? always : FlatGrants.IT_DEPENDS;
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
