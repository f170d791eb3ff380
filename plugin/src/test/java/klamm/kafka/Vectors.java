package klamm.kafka;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.server.authorizer.Action;

/**
 * What Kafka's own classes answered (tests/vectors), asked of the plugin. Reads lines of vectors, and writes how many
 * answers were the same, then every one that was not. Arguments: a folder.
 */
public final class Vectors {
    private final List<String> differences = new ArrayList<>();
    private int same;

    private Vectors() {}

    public static void main(String[] arguments) throws Exception {
        Vectors vectors = new Vectors();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            vectors.take(Stores.JSON.readTree(line), Path.of(arguments[0]));
        }
        System.out.println(vectors.same);
        vectors.differences.forEach(System.out::println);
    }

    private void take(JsonNode line, Path folder) throws Exception {
        Map<String, String> configs = new HashMap<>();
        line.path("config").fields().forEachRemaining(each -> configs.put(each.getKey(), each.getValue().asText()));
        try (KlammAuthorizer authorizer = line.path("loaded").asBoolean(true)
            ? Stores.authorizer(folder, line.path("acls"), configs) : Stores.unloaded(folder, configs)) {
            for (JsonNode request : line.path("requests")) {
                ask(authorizer, line, request);
            }
            for (JsonNode filter : line.path("filters")) {
                String found = texts(authorizer.acls(filter(filter)));
                List<JsonNode> wanted = new ArrayList<>();
                for (JsonNode acl : line.path("acls")) {
                    for (JsonNode id : filter.path("matches")) {
                        if (id.equals(acl.path("id"))) {
                            wanted.add(acl);
                        }
                    }
                }
                compare(line, filter, found, texts(bindings(wanted)));
            }
        }
    }

    private void ask(KlammAuthorizer authorizer, JsonNode line, JsonNode request) throws Exception {
        Stores.Context context = Stores.Context.of(
            request.path("principal").asText(), request.path("host").asText(), request.path("groups"));
        boolean isByType = request.has("checks");
        JsonNode asked = request.path(isByType ? "checks" : "actions");
        JsonNode wanted = request.path(request.has("documented_rules_say") ? "documented_rules_say" : "expected");
        for (int number = 0; number < asked.size(); number++) {
            JsonNode each = asked.get(number);
            compare(line, each, answer(authorizer, context, each, isByType), wanted.get(number).asText());
        }
    }

    private static String answer(
        KlammAuthorizer authorizer, Stores.Context context, JsonNode asked, boolean isByType) {
        AclOperation operation = AclOperation.valueOf(asked.path("operation").asText());
        ResourceType type = ResourceType.valueOf(asked.path("resource_type").asText());
        try {
            if (isByType) {
                return authorizer.authorizeByResourceType(context, operation, type).name();
            }
            ResourcePattern resource =
                new ResourcePattern(type, asked.path("resource_name").asText(), PatternType.LITERAL);
            return authorizer.authorize(context, List.of(new Action(operation, resource, 1, true, true))).get(0).name();
        } catch (RuntimeException refusal) {
            return "ERROR:" + refusal.getClass().getSimpleName();
        }
    }

    private static AclBindingFilter filter(JsonNode fields) {
        return new AclBindingFilter(
            new ResourcePatternFilter(
                ResourceType.valueOf(fields.path("resource_type").asText("ANY")), text(fields, "resource_name"),
                PatternType.valueOf(fields.path("pattern_type").asText("ANY"))),
            new AccessControlEntryFilter(
                text(fields, "principal"), text(fields, "host"),
                AclOperation.valueOf(fields.path("operation").asText("ANY")),
                AclPermissionType.valueOf(fields.path("permission_type").asText("ANY"))));
    }

    private static String text(JsonNode fields, String name) {
        return fields.path(name).isTextual() ? fields.path(name).asText() : null;
    }

    private static List<Object> bindings(List<JsonNode> acls) throws FeedException {
        List<Object> all = new ArrayList<>();
        for (JsonNode each : acls) {
            all.add(FeedRecord.acl(each).binding());
        }
        return all;
    }

    private static String texts(Iterable<?> bindings) {
        TreeSet<String> texts = new TreeSet<>();
        bindings.forEach(each -> texts.add(each.toString()));
        return texts.toString();
    }

    private void compare(JsonNode line, JsonNode asked, String found, String wanted) {
        if (found.equals(wanted)) {
            same++;
        } else {
            ObjectNode which = Stores.JSON.createObjectNode().put("n", line.path("n").asInt());
            which.put("category", line.path("category").asText()).put("found", found).put("wanted", wanted);
            which.set("asked", asked);
            differences.add(which.toString());
        }
    }
}
