package klamm.kafka;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.UUID;
import klamm.kafka.Index.Principal;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * The plugin beside Kafka's own StandardAuthorizer in one JVM, on random stores. Arguments: a folder, a number of
 * stores, of decisions on each, and a seed. Writes how many decisions were the same, then every one that was not.
 *
 * Stores have one to sixty ACLs, one store in fifty up to 2,500, half of them made in a snapshot and half in
 * transactions, some of which are removed again. Names are short words of few letters, so that prefixes nest and hashes
 * collide; none of them runs into what Kafka's walk gets wrong (tests/vectors: authorize_quirks).
 */
public final class Compare {
    private static final String[] PRINCIPALS = {"User:a", "User:b", "User:*", "Group:a", "User:a:b"};
    private static final String[] ASKERS = {"User:a", "User:b", "User:c", "Group:a", "User:a:b", "User:root"};
    private static final String[] HOSTS = {"*", "*", "*", "10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1"};
    /** Only Kafka 4.4 knows them. */
    private static final String[] RANGES = {
        "10.0.0.0/30", "10.0.0.2/31", "10.0.0.0/8", "10.0.0.1/32", "10.0.0.2", "::/96", "*"};
    private static final boolean HAS_RANGES = hasRanges();
    /** Two of them have the same hash. */
    private static final String[] LETTERS = {"a", "b", "Aa", "BB"};
    private static final int MOST = 60;
    private static final int MOST_OF_LARGE = 2_500;
    private static final String[] FROM = {"10.0.0.1", "10.0.0.2", "10.0.0.3", "::1"};
    private static final ResourceType[] TYPES = {
        ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID, ResourceType.CLUSTER};
    private static final AclOperation[] OPERATIONS = {
        AclOperation.ALL, AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DELETE,
        AclOperation.ALTER, AclOperation.DESCRIBE, AclOperation.CLUSTER_ACTION, AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS, AclOperation.IDEMPOTENT_WRITE};
    private static final int MOST_SHOWN = 20;

    private final Random random;
    private final Path folder;
    private long same;
    private int differences;

    private Compare(Path folder, long seed) {
        this.folder = folder;
        this.random = new Random(seed);
    }

    public static void main(String[] arguments) throws Exception {
        Compare compare = new Compare(Path.of(arguments[0]), Long.parseLong(arguments[3]));
        Files.createDirectories(compare.folder);
        List<String> lines = new ArrayList<>();
        for (int store = 0; store < Integer.parseInt(arguments[1]); store++) {
            compare.store(Integer.parseInt(arguments[2]), lines);
        }
        System.out.println(compare.same);
        System.out.println(compare.differences);
        lines.forEach(System.out::println);
    }

    private void store(int decisions, List<String> lines) throws Exception {
        Map<String, String> configs = new HashMap<>();
        configs.put("super.users", "User:root");
        configs.put("allow.everyone.if.no.acl.found", String.valueOf(random.nextInt(4) == 0));
        boolean isLarge = random.nextInt(50) == 0;
        Map<Object, JsonNode> distinct = new HashMap<>();
        for (int left = 1 + random.nextInt(isLarge ? MOST_OF_LARGE : MOST); left > 0; left--) {
            JsonNode acl = acl();
            distinct.put(FeedRecord.acl(acl).binding(), acl);
        }
        List<JsonNode> acls = new ArrayList<>(distinct.values());
        StandardAuthorizer theirs = Peer.of(configs);
        Image ours = image(acls, configs, theirs);
        theirs.completeInitialLoad();
        for (int number = 0; number < decisions; number++) {
            ask(ours, theirs, lines);
        }
        theirs.close();
    }

    private Image image(List<JsonNode> acls, Map<String, String> configs, StandardAuthorizer theirs) throws Exception {
        Index index = Index.EMPTY;
        Index.Editor editor = new Index.Editor(index);
        for (JsonNode each : acls) {
            Acl acl = FeedRecord.acl(each);
            boolean isGone = random.nextInt(8) == 0;
            editor.put(acl);
            if (random.nextBoolean()) {
                index = random.nextBoolean() ? editor.index() : editor.compiled();
                editor = new Index.Editor(index);
            }
            if (isGone) {
                editor.remove(acl);
            } else {
                theirs.addAcl(Uuid.randomUuid(), StandardAcl.fromAclBinding(acl.binding()));
            }
        }
        index = random.nextBoolean() ? editor.index().compiled() : editor.compiled();
        if (index.count() != theirs.aclCount()) {
            throw new AssertionError(index.count() + " ACLs, not " + theirs.aclCount());
        }
        return new Image(
            Epochs.only(new UUID(0, 0)), 0, new byte[0], null, Map.of(), Rules.of(configs, Map.of()), index,
            new StoreTime());
    }

    private ObjectNode acl() {
        ResourceType type = one(TYPES);
        boolean isWildcard = random.nextInt(10) == 0;
        boolean isPrefix = type != ResourceType.CLUSTER && !isWildcard && random.nextBoolean();
        ObjectNode acl = Stores.JSON.createObjectNode();
        acl.put("id", new UUID(random.nextLong(), random.nextLong()).toString());
        acl.put("resource_type", type.name());
        acl.put("resource_name", type == ResourceType.CLUSTER ? "kafka-cluster" : isWildcard ? "*" : name());
        acl.put("pattern_type", isPrefix ? PatternType.PREFIXED.name() : PatternType.LITERAL.name());
        acl.put("principal", one(PRINCIPALS));
        acl.put("host", one(HAS_RANGES && random.nextInt(3) == 0 ? RANGES : HOSTS));
        acl.put("operation", one(OPERATIONS).name());
        boolean denies = random.nextInt(4) == 0;
        acl.put("permission_type", denies ? AclPermissionType.DENY.name() : AclPermissionType.ALLOW.name());
        return acl;
    }

    private String name() {
        StringBuilder name = new StringBuilder();
        for (int left = 1 + random.nextInt(5); left > 0; left--) {
            name.append(one(LETTERS));
        }
        // Two have no place in FlatGrants.
        return switch (random.nextInt(50)) {
            case 0 -> "\u0436";
            case 1 -> "a".repeat(300);
            default -> name.toString();
        };
    }

    private static boolean hasRanges() {
        AclBinding range = new AclBinding(
            new ResourcePattern(ResourceType.TOPIC, "a", PatternType.LITERAL),
            new AccessControlEntry("User:a", "10.0.0.0/8", AclOperation.READ, AclPermissionType.ALLOW));
        try (StandardAuthorizer peer = Peer.of(Map.of())) {
            peer.addAcl(Uuid.randomUuid(), StandardAcl.fromAclBinding(range));
            peer.completeInitialLoad();
            Action read = new Action(AclOperation.READ, range.pattern(), 1, false, false);
            return peer.authorize(Stores.Context.of("User:a", "10.0.0.1"), List.of(read)).get(0)
                == AuthorizationResult.ALLOWED;
        } catch (Exception fault) {
            throw new IllegalStateException(fault);
        }
    }

    private <T> T one(T[] all) {
        return all[random.nextInt(all.length)];
    }

    private void ask(Image ours, StandardAuthorizer theirs, List<String> lines) throws Exception {
        Stores.Context context = CONTEXTS[random.nextInt(CONTEXTS.length)];
        AclOperation operation = OPERATIONS[random.nextInt(OPERATIONS.length)];
        ResourceType type = one(TYPES);
        String name = type == ResourceType.CLUSTER ? "kafka-cluster" : name();
        boolean isByType = random.nextInt(20) == 0;
        boolean allowed = ours.rules().isSuperUser(context.principal());
        Principal own = Decisions.own(ours.index(), context.principal());
        AuthorizationResult wanted;
        if (isByType) {
            allowed |= Decisions.onAnyResource(ours, own, context.clientAddress(), operation, type);
            wanted = theirs.authorizeByResourceType(context, operation, type);
        } else {
            allowed |= Decisions.decide(ours, own, context.clientAddress(), operation, type.code(), name).allowed;
            ResourcePattern resource = new ResourcePattern(type, name, PatternType.LITERAL);
            wanted = theirs.authorize(context, List.of(new Action(operation, resource, 1, false, false))).get(0);
        }
        if (allowed == (wanted == AuthorizationResult.ALLOWED)) {
            same++;
        } else if (differences++ < MOST_SHOWN) {
            StringBuilder line = new StringBuilder(context.principal() + " from " + context.clientAddress() + " "
                + operation + " " + type + " " + (isByType ? "any" : name) + ": Kafka says " + wanted + ";");
            ours.index().forEach(acl -> line.append(' ').append(acl));
            lines.add(line.toString());
        }
    }

    private static final Stores.Context[] CONTEXTS = contexts();

    private static Stores.Context[] contexts() {
        List<Stores.Context> all = new ArrayList<>();
        try {
            for (String each : ASKERS) {
                for (String from : FROM) {
                    all.add(Stores.Context.of(each, from));
                }
            }
        } catch (Exception impossible) {
            throw new AssertionError(impossible);
        }
        return all.toArray(new Stores.Context[0]);
    }
}
