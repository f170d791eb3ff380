package klamm.kafka;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.security.auth.KafkaPrincipal;

/**
 * A principal that is in groups: ACLs of {@code Group:<name>} speak of it, too (docs/groups.md). A broker's own
 * principal.builder.class makes it; Kafka itself knows no groups. As for Kafka's principals, type and name alone make
 * two of them equal.
 */
public class GroupPrincipal extends KafkaPrincipal {
    public static final int MOST_GROUPS = 200;
    public static final int MOST_CHARACTERS = 255;
    private static final byte VERSION = 1;

    private final List<String> groups;

    /** Throws IllegalArgumentException for groups that no request to Klamm could name. */
    public GroupPrincipal(String type, String name, Collection<String> groups) {
        this(type, name, false, groups);
    }

    /** Throws IllegalArgumentException for groups that no request to Klamm could name. */
    public GroupPrincipal(String type, String name, boolean tokenAuthenticated, Collection<String> groups) {
        super(type, name, tokenAuthenticated);
        groups.forEach(GroupPrincipal::check);
        // By code points, which is not what String.compareTo goes by: so the same ACL is named as at the service.
        this.groups = groups.stream().distinct()
            .sorted((one, other) -> Arrays.compareUnsigned(utf8(one), utf8(other))).toList();
        if (this.groups.size() > MOST_GROUPS) {
            throw new IllegalArgumentException(
                this.groups.size() + " groups of a principal are too many; name " + MOST_GROUPS + " at most");
        }
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static void check(String group) {
        int length = group == null ? 0 : group.codePointCount(0, group.length());
        if (length == 0 || length > MOST_CHARACTERS) {
            throw new IllegalArgumentException("a group's name has 1 to " + MOST_CHARACTERS + " characters");
        }
        if (group.indexOf(0) >= 0 || !StandardCharsets.UTF_8.newEncoder().canEncode(group)) {
            throw new IllegalArgumentException("a group's name holds U+0000 or half of a surrogate pair");
        }
    }

    /** In order, each once. */
    public final List<String> groups() {
        return groups;
    }

    /** Those of any principal. */
    static List<String> groupsOf(KafkaPrincipal principal) {
        return principal instanceof GroupPrincipal grouped ? grouped.groups : List.of();
    }

    /**
     * For the builder's KafkaPrincipalSerde: a broker hands requests on to the controller with the principal, which must
     * not lose its groups there. Takes principals without groups as well.
     */
    public static byte[] serialize(KafkaPrincipal principal) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (DataOutputStream out = new DataOutputStream(bytes)) {
            out.writeByte(VERSION);
            out.writeBoolean(principal.tokenAuthenticated());
            write(out, principal.getPrincipalType());
            write(out, principal.getName());
            List<String> named = groupsOf(principal);
            out.writeInt(named.size());
            for (String group : named) {
                write(out, group);
            }
        } catch (IOException never) {
            throw new UncheckedIOException(never);
        }
        return bytes.toByteArray();
    }

    /** What {@link #serialize} has written. Throws SerializationException for anything else. */
    public static GroupPrincipal deserialize(byte[] bytes) {
        try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes))) {
            if (in.readByte() != VERSION) {
                throw new SerializationException("the principal was serialized by something else");
            }
            boolean tokenAuthenticated = in.readBoolean();
            String type = read(in);
            String name = read(in);
            int count = in.readInt();
            if (count < 0 || count > MOST_GROUPS) {
                throw new SerializationException("a principal has " + count + " groups");
            }
            List<String> groups = new ArrayList<>(count);
            for (int left = count; left > 0; left--) {
                groups.add(read(in));
            }
            return new GroupPrincipal(type, name, tokenAuthenticated, groups);
        } catch (IOException | IllegalArgumentException fault) {
            throw new SerializationException("the bytes are no principal", fault);
        }
    }

    private static void write(DataOutputStream out, String text) throws IOException {
        byte[] bytes = utf8(text);
        out.writeInt(bytes.length);
        out.write(bytes);
    }

    private static String read(DataInputStream in) throws IOException {
        int length = in.readInt();
        if (length < 0 || length > in.available()) {
            throw new SerializationException("a principal's text has " + length + " bytes");
        }
        return new String(in.readNBytes(length), StandardCharsets.UTF_8);
    }
}
