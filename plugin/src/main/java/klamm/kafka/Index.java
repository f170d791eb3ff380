package klamm.kafka;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;

/**
 * The ACLs compiled for decisions: principal first, then resource type and name, then host. Immutable: a change makes
 * another index that shares what has not changed.
 */
final class Index {
    static final int TYPES = 8;
    private static final String[] EVERYONE = {"User", Acl.WILDCARD};
    private static final String GROUP = "Group";
    private static final Principal[] NO_PRINCIPALS = {};
    static final Index EMPTY = new Index(Names.empty(), new Patterns<?>[TYPES], 0);

    /**
     * The patterns that a principal has ACLs on, by the code of their type.
     *
     * @param flat the same for decisions ({@link FlatGrants}); null if it has not been made, or can't be
     * @param shape of the flat ones
     * @param groups whose ACLs speak of it as well; null unless it has come with some
     */
    record Principal(Patterns<Grants>[] types, long[] flat, int shape, Principal[] groups) {
        Principal compiled() {
            long[] made = flat == null ? FlatGrants.of(types) : null;
            return made == null ? this : new Principal(types, made, (int) made[0], groups);
        }

        Patterns<Grants> on(int type) {
            return isType(type) ? types[type] : null;
        }
    }

    private record Place(byte type, boolean isPrefix, String name, String principal) {}

    /** By the type of the principal, then by its name. */
    private final Names<Names<Principal>> principals;
    /** For each pattern, how many principals have ACLs on it. */
    private final Patterns<?>[] covered;
    private final Principal everyone;
    private final int count;

    private Index(Names<Names<Principal>> principals, Patterns<?>[] covered, int count) {
        this.principals = principals;
        this.covered = covered;
        this.count = count;
        this.everyone = principal(EVERYONE[0], EVERYONE[1]);
    }

    int count() {
        return count;
    }

    /** The ACLs of this very principal; null if it has none. */
    Principal principal(String type, String name) {
        Names<Principal> names = principals.get(type);
        return names == null ? null : names.get(name);
    }

    /** The same with the groups that it is in; null if none of them has any. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    Principal principal(String type, String name, List<String> groups) {
        Principal alone = principal(type, name);
        Names<Principal> known = principals.get(GROUP);
        if (groups.isEmpty() || known == null) {
            return alone;
        }
        List<Principal> found = new ArrayList<>(groups.size());
        for (String group : groups) {
            Principal each = known.get(group);
            if (each != null) {
                found.add(each);
            }
        }
        if (found.isEmpty()) {
            return alone;
        }
        Patterns<Grants>[] types = alone == null ? new Patterns[TYPES] : alone.types;
        long[] flat = alone == null ? null : alone.flat;
        return new Principal(types, flat, flat == null ? 0 : alone.shape, found.toArray(NO_PRINCIPALS));
    }

    /** The ACLs of {@code User:*}; null if there are none. */
    Principal everyone() {
        return everyone;
    }

    /** Whether ACLs can be about resources of this type. A later Kafka may ask about others. */
    static boolean isType(int code) {
        return code >= 0 && code < TYPES;
    }

    /** Whether any ACL's pattern covers this resource, whatever its principal, host, operation and permission. */
    boolean covers(int type, String name) {
        Patterns<?> patterns = isType(type) ? covered[type] : null;
        return patterns != null && patterns.covers(name);
    }

    /** Those that have a binding in this Kafka. */
    List<AclBinding> matching(AclBindingFilter filter) {
        List<AclBinding> found = new ArrayList<>();
        forEach(acl -> {
            if (acl.hasBinding() && filter.matches(acl.binding())) {
                found.add(acl.binding());
            }
        });
        return found;
    }

    void forEach(Consumer<Acl> visit) {
        principals.any((type, names) -> names.any((name, principal) -> {
            for (Patterns<Grants> patterns : principal.types) {
                if (patterns != null) {
                    patterns.literals().any((pattern, grants) -> visit(grants, visit));
                    patterns.prefixes().any(node -> visit(node.value, visit));
                }
            }
            return false;
        }));
    }

    /** False, so that the visit goes on. */
    private static boolean visit(Grants grants, Consumer<Acl> visit) {
        if (grants != null) {
            for (Acl acl : grants.acls) {
                visit.accept(acl);
            }
        }
        return false;
    }

    private static String[] split(String principal) {
        int colon = principal.indexOf(':');
        // Klamm refuses a principal without a colon; one that got in would be nobody's.
        return colon < 0
            ? new String[] {"", principal}
            : new String[] {principal.substring(0, colon), principal.substring(colon + 1)};
    }

    /** Changes, which come one after another and become an index as one. */
    static final class Editor {
        private final Index base;
        private final Map<Place, Map<Acl.Identity, Acl>> touched = new HashMap<>();

        Editor(Index base) {
            this.base = base;
        }

        /** The stored ACL with the same seven fields; null if there is none. */
        Acl find(Acl acl) {
            return at(acl).get(acl.identity());
        }

        void put(Acl acl) {
            at(acl).put(acl.identity(), acl);
        }

        void remove(Acl acl) {
            at(acl).remove(acl.identity());
        }

        private Map<Acl.Identity, Acl> at(Acl acl) {
            Place place = new Place(acl.resourceType(), acl.isPrefix(), acl.resourceName(), acl.principal());
            return touched.computeIfAbsent(place, this::stored);
        }

        private Map<Acl.Identity, Acl> stored(Place place) {
            Map<Acl.Identity, Acl> found = new LinkedHashMap<>();
            visit(base.grants(place), acl -> found.put(acl.identity(), acl));
            return found;
        }

        /** The index, in which decisions about these principals take few places of memory. */
        Index compiled() {
            Index index = index();
            Set<String> principals = new HashSet<>();
            touched.keySet().forEach(place -> principals.add(place.principal));
            for (String each : principals) {
                String[] who = split(each);
                Principal principal = index.principal(who[0], who[1]);
                if (principal != null) {
                    index = index.with(who, principal.compiled());
                }
            }
            return index;
        }

        /** For many parts of one state, after which {@link Index#compiled} is less work. */
        Index index() {
            Index index = base;
            for (Map.Entry<Place, Map<Acl.Identity, Acl>> each : touched.entrySet()) {
                index = index.with(each.getKey(), Grants.of(each.getValue().values()));
            }
            return index;
        }
    }

    private Grants grants(Place place) {
        String[] principal = split(place.principal);
        Principal holder = principal(principal[0], principal[1]);
        Patterns<Grants> patterns = holder == null ? null : holder.on(place.type);
        return patterns == null ? null : patterns.get(place.isPrefix, place.name);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private Index with(Place place, Grants grants) {
        Grants before = grants(place);
        if (before == null && grants == null) {
            return this;
        }
        String[] who = split(place.principal);
        Principal holder = principal(who[0], who[1]);
        Patterns<Grants>[] types = holder == null ? new Patterns[TYPES] : holder.types.clone();
        types[place.type] = Patterns.with(types[place.type], place.isPrefix, place.name, grants);
        Principal changed = isEmpty(types) ? null : new Principal(types, null, 0, null);
        Patterns<?>[] allCovered = covered;
        if (before == null || grants == null) {
            Patterns<Integer> counts = (Patterns<Integer>) covered[place.type];
            allCovered = covered.clone();
            allCovered[place.type] = Patterns.with(
                counts, place.isPrefix, place.name, counted(counts, place, grants == null ? -1 : 1));
        }
        int total = count - (before == null ? 0 : before.acls.length) + (grants == null ? 0 : grants.acls.length);
        return new Index(with(who, changed).principals, allCovered, total);
    }

    /** @param changed null: it is gone */
    private Index with(String[] who, Principal changed) {
        Names<Principal> names = principals.get(who[0]);
        Names<Principal> changedNames = (names == null ? Names.<Principal>empty() : names).with(who[1], changed);
        return new Index(principals.with(who[0], changedNames.isEmpty() ? null : changedNames), covered, count);
    }

    /** The same, in which decisions take few places of memory. */
    Index compiled() {
        return new Index(principals.mapped(names -> names.mapped(Principal::compiled)), covered, count);
    }

    private static Integer counted(Patterns<Integer> counts, Place place, int more) {
        Integer known = counts == null ? null : counts.get(place.isPrefix, place.name);
        int sum = (known == null ? 0 : known) + more;
        return sum == 0 ? null : sum;
    }

    private static boolean isEmpty(Patterns<?>[] types) {
        for (Patterns<?> each : types) {
            if (each != null) {
                return false;
            }
        }
        return true;
    }
}
