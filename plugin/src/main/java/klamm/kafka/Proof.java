package klamm.kafka;

import java.io.ByteArrayOutputStream;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;

/** The hashes of docs/feed.md: of rows, whose sum is an image's digest, and of records, each chained to the last. */
final class Proof {
    private static final BigInteger MODULUS = BigInteger.ONE.shiftLeft(256);
    private static final int HASH_BYTES = 32;
    private static final HexFormat HEX = HexFormat.of();
    private static final String SPECIAL = "\\\b\t\n\u000b\f\r";
    private static final String ESCAPES = "\\btnvfr";

    private Proof() {}

    static MessageDigest sha256() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    static byte[] hash(String hex) throws FeedException {
        try {
            byte[] hash = HEX.parseHex(hex);
            if (hash.length == HASH_BYTES) {
                return hash;
            }
        } catch (IllegalArgumentException notHex) {
            // Said below.
        }
        throw new FeedException("a hash is not 64 hexadecimal digits");
    }

    static String hex(byte[] hash) {
        return HEX.formatHex(hash);
    }

    static String hex(BigInteger digest) {
        return String.format("%064x", digest);
    }

    static BigInteger sum(BigInteger one, BigInteger other) {
        return one.add(other).mod(MODULUS);
    }

    static BigInteger difference(BigInteger one, BigInteger other) {
        return one.subtract(other).mod(MODULUS);
    }

    static BigInteger ofRow(Acl acl) {
        Acl.Terms terms = acl.terms();
        String ends = terms == null || terms.endsAt() == null ? "" : terms.endsAt().toString();
        String owner = terms == null || terms.owner() == null ? "" : terms.owner();
        return ofLine(HEX.toHexDigits(acl.idHigh()) + HEX.toHexDigits(acl.idLow()) + "\t" + acl.resourceType() + "\t"
            + acl.patternType() + "\t" + acl.operation() + "\t" + acl.permissionType() + "\t"
            + escaped(acl.resourceName()) + "\t" + escaped(acl.principal()) + "\t" + escaped(acl.host()) + "\t" + ends
            + "\t" + escaped(owner));
    }

    /** Zero for a property without a value. */
    static BigInteger ofConfig(String name, String value) {
        return value == null ? BigInteger.ZERO : ofLine("config\t" + escaped(name) + "\t" + escaped(value));
    }

    private static BigInteger ofLine(String line) {
        return new BigInteger(1, sha256().digest(line.getBytes(StandardCharsets.UTF_8)));
    }

    private static String escaped(String text) {
        StringBuilder out = null;
        for (int at = 0; at < text.length(); at++) {
            int special = SPECIAL.indexOf(text.charAt(at));
            if (special >= 0 && out == null) {
                out = new StringBuilder(text.substring(0, at));
            }
            if (special >= 0) {
                out.append('\\').append(ESCAPES.charAt(special));
            } else if (out != null) {
                out.append(text.charAt(at));
            }
        }
        return out == null ? text : out.toString();
    }

    /** The hash of a record that follows a hash. */
    static byte[] chained(byte[] previous, FeedRecord record) {
        MessageDigest digest = sha256();
        digest.update(previous);
        return digest.digest(canonical(record));
    }

    static byte[] canonical(FeedRecord record) {
        Bytes out = new Bytes();
        boolean second = record.hashVersion() == 2;
        if (second) {
            out.write(2);
        }
        out.writeBytes(record.kind().getBytes(StandardCharsets.US_ASCII));
        out.number(record.offset());
        out.number(record.lastOffset());
        out.number(record.recordedAtMicros());
        out.text(record.actor());
        Acl acl = record.acl();
        if (acl == null) {
            out.text(record.name());
            out.optional(record.value());
        } else {
            out.number(acl.idHigh());
            out.number(acl.idLow());
            out.write(acl.resourceType());
            out.write(acl.patternType());
            out.write(acl.operation());
            out.write(acl.permissionType());
            out.text(acl.resourceName());
            out.text(acl.principal());
            out.text(acl.host());
        }
        if (second && acl != null) {
            Acl.Terms terms = acl.terms();
            Long ends = terms == null ? null : terms.endsAt();
            out.write(ends == null ? 0 : 1);
            if (ends != null) {
                out.number(ends);
            }
            out.optional(terms == null ? null : terms.owner());
        }
        if (second) {
            out.optional(record.comment());
        }
        return out.toByteArray();
    }

    private static final class Bytes extends ByteArrayOutputStream {
        void number(long number) {
            writeBytes(ByteBuffer.allocate(Long.BYTES).putLong(number).array());
        }

        void text(String text) {
            byte[] raw = text.getBytes(StandardCharsets.UTF_8);
            writeBytes(ByteBuffer.allocate(Integer.BYTES).putInt(raw.length).array());
            writeBytes(raw);
        }

        void optional(String text) {
            write(text == null ? 0 : 1);
            if (text != null) {
                text(text);
            }
        }
    }
}
