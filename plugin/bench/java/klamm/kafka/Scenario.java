package klamm.kafka;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.server.authorizer.Action;

/** A store, and the requests that are asked of it in turn. */
record Scenario(List<Acl> acls, List<Request> requests) {
    private static final String GRID_NAME = "foo-bar35_resource-";
    private static final int GRID_HOSTS = 1_000;
    private static final int ASKED = 1 << 16;

    /** One call of authorize. */
    record Request(Stores.Context context, List<Action> actions) {
        static Request of(String principal, String host, AclOperation operation, String... topics) throws Exception {
            List<Action> actions = new ArrayList<>();
            for (String topic : topics) {
                actions.add(new Action(
                    operation, new ResourcePattern(ResourceType.TOPIC, topic, PatternType.LITERAL), 1, true, true));
            }
            return new Request(Stores.Context.of(principal, host), actions);
        }

        /** The same in texts of its own. */
        Request read() {
            KafkaPrincipal who = context.principal();
            List<Action> read = new ArrayList<>(actions.size());
            for (Action each : actions) {
                ResourcePattern pattern = each.resourcePattern();
                read.add(new Action(
                    each.operation(), new ResourcePattern(pattern.resourceType(), copy(pattern.name()), PatternType.LITERAL),
                    1, true, true));
            }
            return new Request(
                new Stores.Context(
                    new KafkaPrincipal(who.getPrincipalType(), copy(who.getName())), context.clientAddress()),
                read);
        }

        /** A copy of a string object would know the hash. */
        private static String copy(String text) {
            return new String(text.getBytes(StandardCharsets.UTF_8), StandardCharsets.UTF_8);
        }
    }

    static Scenario named(String name) throws Exception {
        return switch (name) {
            case "nested prefixes" -> nestedPrefixes();
            case "one topic of 10000 principals" -> oneTopic();
            case "1000 ranges" -> ranges();
            case "7000 ACLs on 504 topics" -> manyTopics();
            case "1000000 ACLs" -> million();
            default -> throw new IllegalArgumentException(name);
        };
    }

    /** As org.apache.kafka.jmh.acl.AuthorizerBenchmark makes it. */
    static Scenario grid(int resources, int aclsEach, double denyPercentage) throws Exception {
        Random random = new Random(1);
        List<Acl> acls = new ArrayList<>();
        for (int resource = 0; resource < resources; resource++) {
            ResourceType type = resource % 10 == 0 ? ResourceType.GROUP : ResourceType.TOPIC;
            PatternType pattern = resource % 5 == 0 ? PatternType.PREFIXED : PatternType.LITERAL;
            String name = GRID_NAME + resource;
            for (int number = 0; number < aclsEach; number++) {
                String principal = "User:test-user" + (number == 0 ? "" : number);
                acls.add(acl(type, pattern, name, principal, "*", AclPermissionType.ALLOW));
                if (random.nextDouble() * 100 < denyPercentage) {
                    acls.add(acl(type, pattern, name, principal, "*", AclPermissionType.DENY));
                }
            }
        }
        for (int host = 0; host < GRID_HOSTS; host++) {
            String from = "127.0.0." + host;
            acls.add(allow(PatternType.PREFIXED, GRID_NAME, "User:test-user", from));
            acls.add(allow(PatternType.LITERAL, "*", "User:test-user", from));
        }
        return new Scenario(
            acls, List.of(Request.of("User:test-user", "127.0.0.1", AclOperation.WRITE, GRID_NAME + 95)));
    }

    private static Scenario nestedPrefixes() throws Exception {
        List<Acl> acls = new ArrayList<>();
        String name = "x".repeat(200);
        for (int length = 1; length <= name.length(); length++) {
            for (int principal = 0; principal < 50; principal++) {
                acls.add(allow(PatternType.PREFIXED, name.substring(0, length), "User:u" + principal, "*"));
            }
        }
        return new Scenario(acls, List.of(Request.of("User:u7", "10.0.0.1", AclOperation.WRITE, name)));
    }

    private static Scenario oneTopic() throws Exception {
        List<Acl> acls = new ArrayList<>();
        for (int principal = 0; principal < 10_000; principal++) {
            acls.add(allow(PatternType.LITERAL, "orders", "User:u" + principal, "*"));
        }
        return new Scenario(acls, List.of(Request.of("User:u5000", "10.0.0.1", AclOperation.READ, "orders")));
    }

    private static Scenario ranges() throws Exception {
        List<Acl> acls = new ArrayList<>();
        for (int range = 0; range < 1_000; range++) {
            acls.add(allow(
                PatternType.LITERAL, "orders", "User:app", "10." + range / 256 + "." + range % 256 + ".0/24"));
        }
        return new Scenario(acls, List.of(
            Request.of("User:app", "10.3.200.7", AclOperation.READ, "orders"),
            Request.of("User:app", "10.9.9.9", AclOperation.READ, "orders")));
    }

    /** KAFKA-20667: a client that describes all of its topics. */
    private static Scenario manyTopics() throws Exception {
        List<Acl> acls = new ArrayList<>();
        String[] topics = new String[504];
        for (int topic = 0; topic < topics.length; topic++) {
            topics[topic] = "events.team-" + topic % 21 + ".stream-" + topic;
        }
        for (int number = 0; number < 7_000; number++) {
            acls.add(allow(
                PatternType.LITERAL, topics[number % topics.length], "User:app-" + number / topics.length, "*"));
        }
        return new Scenario(acls, List.of(Request.of("User:app-3", "10.0.0.1", AclOperation.DESCRIBE, topics)));
    }

    /** 20,000 principals have READ or WRITE on 50 of 100,000 topics each, every tenth by prefix. */
    static Scenario million() throws Exception {
        Random random = new Random(2);
        List<Acl> acls = new ArrayList<>();
        List<Request> requests = new ArrayList<>();
        String[] names = new String[100_000];
        for (int topic = 0; topic < names.length; topic++) {
            names[topic] = "company.department-" + topic % 97 + ".events-" + topic;
        }
        String[] principals = new String[20_000];
        for (int number = 0; number < 1_000_000; number++) {
            int principal = number % principals.length;
            if (principals[principal] == null) {
                principals[principal] = "User:CN=service-" + principal + ",OU=department-" + principal % 97 + ",O=co";
            }
            int topic = (principal * 31 + number / principals.length * 1_999) % names.length;
            AclOperation operation = number % 2 == 0 ? AclOperation.READ : AclOperation.WRITE;
            acls.add(new Acl(
                number, number, ResourceType.TOPIC.code(),
                (number % 10 == 9 ? PatternType.PREFIXED : PatternType.LITERAL).code(), operation.code(),
                AclPermissionType.ALLOW.code(), names[topic], principals[principal], "*", null));
        }
        for (int asked = 0; asked < ASKED; asked++) {
            Acl acl = acls.get(random.nextInt(acls.size()));
            String topic = random.nextInt(4) == 0 ? names[random.nextInt(names.length)] : acl.resourceName();
            requests.add(Request.of(acl.principal(), "10.0.0.1", AclOperation.READ, topic));
        }
        return new Scenario(acls, requests);
    }

    private static Acl allow(PatternType pattern, String name, String principal, String host) {
        return acl(ResourceType.TOPIC, pattern, name, principal, host, AclPermissionType.ALLOW);
    }

    private static Acl acl(
        ResourceType type, PatternType pattern, String name, String principal, String host,
        AclPermissionType permission) {
        return new Acl(
            0, 0, type.code(), pattern.code(), AclOperation.READ.code(), permission.code(), name, principal, host,
            null);
    }
}
