package klamm.kafka;

import org.apache.kafka.common.acl.AclOperation;

/**
 * What ACLs say of operations, as bits of a long: 0 to 15 are allowed (implied ones too), 16 to 31 are denied, 32 to
 * 47 are allowed by name (without implied ones). The bit's number within its part is the operation's code.
 */
final class Masks {
    static final int CODES = 16;
    private static final long ALL_CODES = 0xFFFF;
    private static final int DENY = 16;
    private static final int PLAIN = 32;
    private static final byte ALL = Codes.OPERATIONS.code("ALL");
    /** By the code of an operation, the bits of those that an ALLOW of it implies. */
    private static final long[] IMPLIED = new long[CODES];

    static {
        for (String name : new String[] {"READ", "WRITE", "DELETE", "ALTER"}) {
            IMPLIED[Codes.OPERATIONS.code(name)] = 1L << Codes.OPERATIONS.code("DESCRIBE");
        }
        IMPLIED[Codes.OPERATIONS.code("ALTER_CONFIGS")] = 1L << Codes.OPERATIONS.code("DESCRIBE_CONFIGS");
        if (Codes.OPERATIONS.end() > CODES) {
            throw new ExceptionInInitializerError("an operation has no bit");
        }
    }

    private Masks() {}

    static long of(Acl acl) {
        long covered = acl.operation() == ALL ? ALL_CODES : 1L << acl.operation();
        if (!acl.allows()) {
            return covered << DENY;
        }
        return covered << PLAIN | covered | IMPLIED[acl.operation()];
    }

    static long allow(AclOperation operation) {
        return 1L << code(operation);
    }

    static long deny(AclOperation operation) {
        return 1L << DENY + code(operation);
    }

    static long plainAllow(AclOperation operation) {
        return 1L << PLAIN + code(operation);
    }

    /** An operation of a later Kafka takes UNKNOWN's bit, which only ACLs with ALL have. */
    private static int code(AclOperation operation) {
        int code = operation.code();
        return code >= 0 && code < CODES ? code : 0;
    }
}
