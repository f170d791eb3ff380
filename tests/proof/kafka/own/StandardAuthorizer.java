package org.apache.kafka.metadata.authorizer;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import klamm.kafka.KlammAuthorizer;
import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.server.authorizer.AclCreateResult;
import org.apache.kafka.server.authorizer.AclDeleteResult;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizerServerInfo;

/**
 * Klamm's authorizer under the name that Kafka's own tests configure; in front on the class path. It tells the plugin
 * where Klamm is, and empties Klamm's store before the first of a test's authorizers: each test expects a new cluster.
 */
public class StandardAuthorizer extends KlammAuthorizer {
    public static final String SUPER_USERS_CONFIG = "super.users";
    public static final String ALLOW_EVERYONE_IF_NO_ACL_IS_FOUND_CONFIG = "allow.everyone.if.no.acl.found";
    private static final String URL = System.getProperty("klamm.test.url");
    private static final String ADMIN = "User:admin";
    private static final long PATIENCE_S = 60;
    private static int open;

    private Map<Endpoint, ? extends CompletionStage<Void>> starting = Map.of();
    /** Whether a test calls this authorizer by itself, without a broker. Such a test does not await its changes. */
    private boolean isAlone;
    private boolean isOpen;

    @Override
    public void configure(Map<String, ?> configs) {
        begin();
        isOpen = true;
        Map<String, Object> all = new HashMap<>(configs);
        all.put("klamm.urls", URL);
        all.put("klamm.principal", ADMIN);
        super.configure(all);
    }

    private static synchronized void begin() {
        if (open++ == 0) {
            try {
                empty();
            } catch (IOException fault) {
                throw new IllegalStateException("Klamm's store was not emptied", fault);
            }
        }
    }

    private static void empty() throws IOException {
        HttpURLConnection connection = (HttpURLConnection) URI.create(URL + "/v1/acls/delete").toURL().openConnection();
        // A connection that is kept has a thread, which Kafka's tests take for one that was forgotten.
        connection.setRequestProperty("Connection", "close");
        connection.setRequestProperty("Content-Type", "application/json");
        connection.setDoOutput(true);
        String body = "{\"context\": {\"principal\": \"" + ADMIN + "\", \"client_address\": \"127.0.0.1\"}, "
            + "\"filters\": [{}]}";
        connection.getOutputStream().write(body.getBytes(StandardCharsets.UTF_8));
        try (InputStream answer = connection.getInputStream()) {
            if (new ObjectMapper().readTree(answer).at("/results/0/error_code").asInt(-1) != 0) {
                throw new IOException("it refused");
            }
        }
    }

    private static synchronized void end() {
        open--;
    }

    @Override
    public Map<Endpoint, ? extends CompletionStage<Void>> start(AuthorizerServerInfo server) {
        starting = super.start(server);
        return starting;
    }

    /** What the broker calls when it has read the metadata log; here, a test does. */
    public void completeInitialLoad() {
        isAlone = true;
        starting.values().forEach(StandardAuthorizer::await);
    }

    public void setAclMutator(AclMutator mutator) {
        // Klamm is what changes its ACLs.
    }

    @Override
    public List<? extends CompletionStage<AclCreateResult>> createAcls(
        AuthorizableRequestContext context, List<AclBinding> bindings) {
        List<? extends CompletionStage<AclCreateResult>> results = super.createAcls(context, bindings);
        if (isAlone) {
            results.forEach(StandardAuthorizer::await);
        }
        return results;
    }

    @Override
    public List<? extends CompletionStage<AclDeleteResult>> deleteAcls(
        AuthorizableRequestContext context, List<AclBindingFilter> filters) {
        List<? extends CompletionStage<AclDeleteResult>> results = super.deleteAcls(context, filters);
        if (isAlone) {
            results.forEach(StandardAuthorizer::await);
        }
        return results;
    }

    private static void await(CompletionStage<?> stage) {
        try {
            stage.toCompletableFuture().get(PATIENCE_S, TimeUnit.SECONDS);
        } catch (java.util.concurrent.ExecutionException refused) {
            // The test finds it in the future.
        } catch (Exception fault) {
            throw new IllegalStateException(fault);
        }
    }

    @Override
    public void close() throws IOException {
        super.close();
        if (isOpen) {
            isOpen = false;
            end();
        }
    }
}
