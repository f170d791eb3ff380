package klamm.kafka;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.net.ConnectException;
import java.net.HttpURLConnection;
import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.BrokerNotAvailableException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.server.authorizer.AclCreateResult;
import org.apache.kafka.server.authorizer.AclDeleteResult;
import org.apache.kafka.server.authorizer.AclDeleteResult.AclBindingDeleteResult;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Changes of ACLs, sent to Klamm by a thread of their own. */
final class Updates implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(Updates.class);
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int CLOSE_MS = 1_000;
    private static final int WAITING = 200;
    /** Before the 30 s after which an Admin client gives a request up by itself. */
    private static final int READ_MS = 20_000;
    private static final int REACH_MS = 30_000;
    private static final int MOST_OF_ANSWER = 256 << 20;
    private static final int MOST_OF_COMMENT = 500;

    private final Settings settings;
    private final Link link;
    private final Replica replica;
    private final ThreadPoolExecutor thread;
    private volatile Thread newest;
    private volatile long lastLatencyMs = -1;

    Updates(Settings settings, Link link, Replica replica) {
        this.settings = settings;
        this.link = link;
        this.replica = replica;
        this.thread = new ThreadPoolExecutor(1, 1, 0, TimeUnit.SECONDS, new ArrayBlockingQueue<>(WAITING), task -> {
            Thread made = new Thread(task, "klamm-updates");
            made.setDaemon(true);
            newest = made;
            return made;
        });
    }

    /** How long the last change took until this broker decided by it; -1 if there was none. */
    long lastLatencyMs() {
        return lastLatencyMs;
    }

    List<CompletableFuture<AclCreateResult>> create(AuthorizableRequestContext context, List<AclBinding> bindings) {
        ObjectNode body = JSON.createObjectNode();
        ArrayNode all = body.putArray("bindings");
        bindings.forEach(each -> put(all.addObject(), each.toFilter()));
        return send("/v1/acls", body, context, bindings.size(), Updates::created);
    }

    List<CompletableFuture<AclDeleteResult>> delete(AuthorizableRequestContext context, List<AclBindingFilter> filters) {
        ObjectNode body = JSON.createObjectNode();
        ArrayNode all = body.putArray("filters");
        filters.forEach(each -> put(all.addObject(), each));
        return send("/v1/acls/delete", body, context, filters.size(), Updates::deleted);
    }

    private static void put(ObjectNode to, AclBindingFilter filter) {
        to.put("resource_type", filter.patternFilter().resourceType().name());
        to.put("resource_name", filter.patternFilter().name());
        to.put("pattern_type", filter.patternFilter().patternType().name());
        to.put("principal", filter.entryFilter().principal());
        to.put("host", filter.entryFilter().host());
        to.put("operation", filter.entryFilter().operation().name());
        to.put("permission_type", filter.entryFilter().permissionType().name());
    }

    private static AclCreateResult created(JsonNode result) {
        ApiException refusal = refusal(result);
        return refusal == null ? AclCreateResult.SUCCESS : new AclCreateResult(refusal);
    }

    private static AclDeleteResult deleted(JsonNode result) {
        ApiException refusal = refusal(result);
        if (refusal != null) {
            return new AclDeleteResult(refusal);
        }
        List<AclBindingDeleteResult> gone = new ArrayList<>();
        for (JsonNode match : result.path("matches")) {
            try {
                gone.add(new AclBindingDeleteResult(FeedRecord.acl(match).binding(), refusal(match)));
            } catch (FeedException fault) {
                return new AclDeleteResult(new BrokerNotAvailableException("Klamm's answer: " + fault.getMessage()));
            }
        }
        return new AclDeleteResult(gone);
    }

    private static ApiException refusal(JsonNode outcome) {
        int code = outcome.path("error_code").asInt(-1);
        return code == 0 ? null : Errors.forCode((short) code).exception(
            outcome.path("code").asText("") + ": " + outcome.path("error_message").asText(""));
    }

    private <T> List<CompletableFuture<T>> send(
        String path, ObjectNode body, AuthorizableRequestContext context, int count, Function<JsonNode, T> read) {
        List<CompletableFuture<T>> futures = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            futures.add(new CompletableFuture<>());
        }
        try {
            putContext(body, context);
            thread.execute(() -> run(path, body, futures, read));
        } catch (RejectedExecutionException full) {
            fail(futures, new BrokerNotAvailableException(
                "the ACLs were not changed: more than " + WAITING + " changes wait for Klamm; try again later"));
        }
        return futures;
    }

    private void putContext(ObjectNode body, AuthorizableRequestContext context) {
        String requester = context.principal().getPrincipalType() + ":" + context.principal().getName();
        String address = context.clientAddress() == null ? "127.0.0.1" : context.clientAddress().getHostAddress();
        ObjectNode sent = body.putObject("context");
        sent.put("principal", settings.principal() == null ? requester : settings.principal());
        sent.put("client_address", address);
        List<String> groups = GroupPrincipal.groupsOf(context.principal());
        if (settings.principal() == null && !groups.isEmpty()) {
            groups.forEach(sent.putArray("groups")::add);
        }
        if (settings.principal() != null) {
            String comment = ("asked by " + requester + " from " + address + " through Kafka").replaceAll("\\p{C}", "?");
            body.put("comment", comment.substring(0, Math.min(MOST_OF_COMMENT, comment.length())));
        }
    }

    private <T> void run(
        String path, ObjectNode body, List<CompletableFuture<T>> futures, Function<JsonNode, T> read) {
        long began = System.nanoTime();
        try {
            JsonNode answer = ask(path, JSON.writeValueAsBytes(body));
            JsonNode results = answer.path("results");
            if (results.size() != futures.size()) {
                throw new BrokerNotAvailableException("Klamm's answer is not one to this change");
            }
            List<T> all = new ArrayList<>();
            results.forEach(each -> all.add(read.apply(each)));
            replica.reached(FeedRecord.text(answer, "token"), REACH_MS).whenComplete((done, late) -> {
                lastLatencyMs = (System.nanoTime() - began) / 1_000_000;
                for (int number = 0; number < all.size() && late == null; number++) {
                    futures.get(number).complete(all.get(number));
                }
                if (late != null) {
                    fail(futures, new TimeoutException(
                        "Klamm has made the change, but this node has not heard of it for " + REACH_MS + " ms"));
                }
            });
        } catch (ApiException refusal) {
            fail(futures, refusal);
        } catch (IOException | FeedException | RuntimeException fault) {
            LOG.warn("a change of ACLs failed", fault);
            fail(futures, new BrokerNotAvailableException("a change of ACLs failed: " + fault));
        }
    }

    private static void fail(List<? extends CompletableFuture<?>> futures, ApiException why) {
        futures.forEach(each -> each.completeExceptionally(why));
    }

    private JsonNode ask(String path, byte[] body) throws IOException {
        List<String> unreachable = new ArrayList<>();
        for (URI url : settings.urls()) {
            HttpURLConnection connection = link.open(url, path, READ_MS);
            try {
                Link.send(connection, body);
            } catch (ConnectException | java.net.SocketTimeoutException away) {
                unreachable.add(url + " (" + away.getMessage() + ")");
                continue;
            }
            try {
                return answer(connection);
            } catch (IOException fault) {
                throw new BrokerNotAvailableException(
                    "Klamm at " + url + " did not answer, so that nobody knows whether it has made the change: " + fault);
            } finally {
                connection.disconnect();
            }
        }
        throw new BrokerNotAvailableException(
            "the ACLs were not changed: Klamm can't be reached at " + String.join(", ", unreachable));
    }

    private static JsonNode answer(HttpURLConnection connection) throws IOException {
        int status = connection.getResponseCode();
        JsonNode answer = JSON.readTree(Link.body(connection, MOST_OF_ANSWER));
        if (status == HttpURLConnection.HTTP_OK) {
            return answer;
        }
        int code = answer.path("error_code").asInt(-1);
        String why = "Klamm refused the change: " + answer.path("detail").asText("status " + status);
        throw code > 0 ? Errors.forCode((short) code).exception(why) : new BrokerNotAvailableException(why);
    }

    @Override
    public void close() {
        for (Runnable never : thread.shutdownNow()) {
            LOG.warn("a change of ACLs was not sent, as the authorizer is closed: {}", never);
        }
        try {
            Thread last = newest;
            if (last != null) {
                last.join(CLOSE_MS);
            }
        } catch (InterruptedException asked) {
            Thread.currentThread().interrupt();
        }
    }
}
