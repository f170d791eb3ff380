package klamm.kafka;

import java.util.HashMap;
import java.util.Map;

/**
 * Kafka's names and codes of what an ACL is made of, as the newest Kafka has them. INVARIANT: the replica is read and
 * kept by this table and not by the broker's own enums, which may lack an operation that an ACL names.
 */
final class Codes {
    static final Codes RESOURCE_TYPES =
        new Codes(2, "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER");
    static final Codes PATTERN_TYPES = new Codes(3, "LITERAL", "PREFIXED");
    static final Codes OPERATIONS = new Codes(
        2, "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS",
        "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT");
    static final Codes PERMISSION_TYPES = new Codes(2, "DENY", "ALLOW");

    private final int first;
    private final String[] names;
    private final Map<String, Byte> codes = new HashMap<>();

    /** @param first the code of the first name; UNKNOWN and the names that only filters have are left out */
    private Codes(int first, String... names) {
        this.first = first;
        this.names = names;
        for (int number = 0; number < names.length; number++) {
            codes.put(names[number], (byte) (first + number));
        }
    }

    /** Null for a name that no ACL has, or that is of a later Kafka than this plugin. */
    Byte code(String name) {
        return codes.get(name);
    }

    String name(byte code) {
        int number = code - first;
        return number >= 0 && number < names.length ? names[number] : "UNKNOWN";
    }

    /** One more than the highest code. */
    int end() {
        return first + names.length;
    }
}
