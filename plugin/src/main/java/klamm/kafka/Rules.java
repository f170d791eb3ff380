package klamm.kafka;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.common.security.auth.KafkaPrincipal;

/** The two properties that decide where no ACL does: the broker's own file wins over what Klamm's store says. */
record Rules(String[] superUsers, boolean allowEveryoneIfNoAclFound) {
    static final String SUPER_USERS = "super.users";
    static final String ALLOW_EVERYONE = "allow.everyone.if.no.acl.found";

    /** Klamm's properties; a broker has its own of the last three. */
    private static final Set<String> KNOWN = Set.of(
        SUPER_USERS, ALLOW_EVERYONE, "early.start.listeners", "max.staleness.ms", "audit.level");

    /** The names of stored properties that this version does not know. */
    static Set<String> unknown(Map<String, String> stored) {
        Set<String> names = new TreeSet<>(stored.keySet());
        names.removeAll(KNOWN);
        return names;
    }

    /** @param stored Klamm's stored properties */
    static Rules of(Map<String, String> own, Map<String, String> stored) {
        return new Rules(
            superUsers(value(own, stored, SUPER_USERS)),
            "true".equalsIgnoreCase(value(own, stored, ALLOW_EVERYONE).trim()));
    }

    private static String value(Map<String, String> own, Map<String, String> stored, String name) {
        String value = own.get(name);
        return value != null ? value : stored.getOrDefault(name, "");
    }

    private static String[] superUsers(String text) {
        List<String> found = new ArrayList<>();
        for (String part : text.split(";")) {
            String user = part.trim();
            if (user.indexOf(':') >= 0) {
                found.add(user);
            }
        }
        return found.toArray(new String[0]);
    }

    /** As Kafka does it, by the principal's whole text; but without making one. */
    boolean isSuperUser(KafkaPrincipal principal) {
        String type = principal.getPrincipalType();
        String name = principal.getName();
        for (String whole : superUsers) {
            if (whole.length() == type.length() + 1 + name.length() && whole.charAt(type.length()) == ':'
                && whole.startsWith(type) && whole.endsWith(name)) {
                return true;
            }
        }
        return false;
    }
}
