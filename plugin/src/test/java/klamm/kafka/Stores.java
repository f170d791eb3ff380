package klamm.kafka;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.math.BigInteger;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;

/** Authorizers for a set of ACLs, without a service: they stand on a state file. */
final class Stores {
    static final ObjectMapper JSON = new ObjectMapper();
    private static final String EPOCH = "5a6f9f10-94c5-4a1c-9a70-0d5b6f3c2e11";
    private static final String HASH = "0".repeat(64);

    private Stores() {}

    /** An authorizer that has loaded these ACLs; nobody listens where its Klamm should be. */
    static KlammAuthorizer authorizer(Path folder, Iterable<JsonNode> acls, Map<String, String> configs)
        throws Exception {
        Path file = folder.resolve("state-1.jsonl");
        Files.deleteIfExists(file);
        Files.createFile(file, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
        Files.write(file, lines(acls));
        KlammAuthorizer authorizer = unloaded(folder, configs);
        authorizer.start(new Server());
        authorizer.loaded().get();
        return authorizer;
    }

    static KlammAuthorizer unloaded(Path folder, Map<String, String> configs) {
        Map<String, String> all = new HashMap<>(configs);
        all.put("klamm.urls", "http://127.0.0.1:9");
        all.put("klamm.state.dir", folder.toString());
        KlammAuthorizer authorizer = new KlammAuthorizer();
        authorizer.configure(all);
        return authorizer;
    }

    private static List<String> lines(Iterable<JsonNode> acls) throws Exception {
        ArrayNode all = JSON.createArrayNode();
        BigInteger digest = BigInteger.ZERO;
        for (JsonNode each : acls) {
            all.add(each);
            digest = Proof.sum(digest, Proof.ofRow(FeedRecord.acl(each)));
        }
        List<String> lines = new ArrayList<>();
        lines.add(event("snapshot", digest).put("acl_count", all.size()).put("config_count", 0).toString());
        ObjectNode part = JSON.createObjectNode().put("type", "acls");
        part.set("acls", all);
        lines.add(part.toString());
        lines.add("{\"type\":\"configs\",\"configs\":{}}");
        lines.add(event("synced", digest).toString());
        return lines;
    }

    private static ObjectNode event(String type, BigInteger digest) {
        return JSON.createObjectNode().put("type", type).put("token", EPOCH + ":0").put("hash", HASH)
            .put("digest", Proof.hex(digest));
    }

    /** Who asks. */
    record Context(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        static Context of(String principal, String host) throws Exception {
            return of(principal, host, JSON.missingNode());
        }

        /** @param groups an array of names, or nothing: then it is one of Kafka's own principals */
        static Context of(String principal, String host, JsonNode groups) throws Exception {
            int colon = principal.indexOf(':');
            String type = principal.substring(0, colon);
            String name = principal.substring(colon + 1);
            KafkaPrincipal who = new KafkaPrincipal(type, name);
            if (groups.isArray()) {
                List<String> names = new ArrayList<>();
                groups.forEach(each -> names.add(each.textValue()));
                // As a controller has it.
                who = GroupPrincipal.deserialize(GroupPrincipal.serialize(new GroupPrincipal(type, name, names)));
            }
            return new Context(who, InetAddress.getByName(host));
        }

        @Override
        public String listenerName() {
            return "CLIENT";
        }

        @Override
        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        @Override
        public int requestType() {
            return 1;
        }

        @Override
        public int requestVersion() {
            return 1;
        }

        @Override
        public String clientId() {
            return "client";
        }

        @Override
        public int correlationId() {
            return 1;
        }
    }
}
