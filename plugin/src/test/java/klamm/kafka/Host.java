package klamm.kafka;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.server.authorizer.AclCreateResult;
import org.apache.kafka.server.authorizer.AclDeleteResult;
import org.apache.kafka.server.authorizer.Action;

/**
 * The authorizer without a broker. Argument: a file of properties. Each line of standard input is a JSON object, whose
 * field `do` says what is asked, and is answered by one line.
 */
public final class Host {
    private static KlammAuthorizer authorizer;
    private static Map<Endpoint, ? extends CompletionStage<Void>> started;
    private static volatile String callbackThread = "";

    private Host() {}

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (FileInputStream in = new FileInputStream(arguments[0])) {
            properties.load(in);
        }
        Map<String, Object> configs = new HashMap<>();
        properties.forEach((name, value) -> configs.put((String) name, value));
        authorizer = new KlammAuthorizer();
        Metrics metrics = new Metrics();
        try {
            authorizer.configure(configs);
            authorizer.withPluginMetrics(new PluginMetricsImpl(metrics, Map.of()));
        } catch (RuntimeException refusal) {
            System.out.println("refused: " + refusal.getMessage());
            return;
        }
        started = authorizer.start(new Server());
        started.get(Server.CLIENT).whenComplete((done, fault) -> callbackThread = Thread.currentThread().getName());
        System.out.println("started");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode asked = Stores.JSON.readTree(line);
            try {
                System.out.println(asked.path("do").asText().equals("metrics") ? shown(metrics) : answer(asked));
            } catch (ExecutionException fault) {
                System.out.println(fault.getCause());
            } catch (RuntimeException fault) {
                System.out.println(fault);
            }
        }
        authorizer.close();
        System.out.println(Thread.getAllStackTraces().keySet().stream().map(Thread::getName)
            .filter(name -> name.startsWith("klamm") || name.startsWith("Keep-Alive")).toList());
    }

    private static String shown(Metrics metrics) throws Exception {
        Map<String, Object> values = new TreeMap<>();
        metrics.metrics().forEach((name, metric) -> {
            if (name.group().equals("plugins")) {
                values.put(name.name(), metric.metricValue());
            }
        });
        return Stores.JSON.writeValueAsString(values);
    }

    private static String answer(JsonNode asked) throws Exception {
        Stores.Context context = Stores.Context.of(
            asked.path("principal").asText("User:alice"), asked.path("host").asText("127.0.0.1"),
            asked.path("groups"));
        switch (asked.path("do").asText()) {
            case "ask":
                List<Action> actions = new ArrayList<>();
                boolean isAudited = asked.path("audited").asBoolean(true);
                for (JsonNode name : asked.path("names")) {
                    ResourcePattern resource =
                        new ResourcePattern(ResourceType.TOPIC, name.asText(), PatternType.LITERAL);
                    actions.add(new Action(AclOperation.READ, resource, 1, isAudited, isAudited));
                }
                return authorizer.authorize(context, actions).toString();
            case "listeners":
                return isDone(Server.EARLY) + " " + isDone(Server.CLIENT);
            case "callback":
                return callbackThread;
            case "figures":
                return authorizer.getOffset() + " " + authorizer.getAclCount() + " " + authorizer.getConnections();
            case "token":
                return authorizer.token();
            case "reconfigure":
                Map<String, Object> changed = new HashMap<>();
                asked.path("configs").fields()
                    .forEachRemaining(each -> changed.put(each.getKey(), each.getValue().asText()));
                authorizer.validateReconfiguration(changed);
                authorizer.reconfigure(changed);
                return "done";
            case "create":
                List<AclBinding> bindings = new ArrayList<>();
                for (JsonNode each : asked.path("acls")) {
                    bindings.add(FeedRecord.acl(each).binding());
                }
                StringBuilder said = new StringBuilder();
                for (CompletionStage<AclCreateResult> each : authorizer.createAcls(context, bindings)) {
                    said.append(done(each).exception()).append(' ');
                }
                return said.toString().trim();
            case "delete":
                AclDeleteResult gone = done(authorizer.deleteAcls(context, List.of(AclBindingFilter.ANY)).get(0));
                return gone.exception() + " " + gone.aclBindingDeleteResults().size();
            default:
                throw new IllegalArgumentException(asked.toString());
        }
    }

    private static boolean isDone(Endpoint endpoint) {
        return started.get(endpoint).toCompletableFuture().isDone();
    }

    private static <T> T done(CompletionStage<T> stage) throws Exception {
        return stage.toCompletableFuture().get();
    }
}
