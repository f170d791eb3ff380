package klamm.kafka;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.stream.Stream;
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
    /** What is asked of Klamm, and how its result, or a refusal of the whole, is told to Kafka. */
    private record Kind<T>(String path, Function<JsonNode, T> read, Function<ApiException, T> refused) {}

    /**
     * One request for changes.
     *
     * <p>INVARIANT: a future ends with a result, never by an exception. Kafka takes the result in a callback: an
     * exception there is lost, and with it the broker's answer, so that the client waits until it gives up.
     */
    private record Change<T>(Updates updates, Kind<T> kind, ObjectNode body, List<CompletableFuture<T>> futures)
        implements Runnable {
        @Override
        public void run() {
            long began = System.nanoTime();
            try {
                JsonNode answer = updates.client.post(kind.path, Json.MAPPER.writeValueAsBytes(body));
                JsonNode results = answer.path("results");
                if (results.size() != futures.size()) {
                    throw new BrokerNotAvailableException("Klamm's answer is not one to this change");
                }
                List<T> all = new ArrayList<>();
                results.forEach(each -> all.add(kind.read.apply(each)));
                long reachMs = Math.max(LEAST_REACH_MS, ANSWER_MS - (System.nanoTime() - began) / 1_000_000);
                Token token = Token.parse(FeedRecord.text(answer, "token"));
                updates.replica.reached(token, reachMs).whenComplete((done, late) -> {
                    updates.lastLatencyMs = (System.nanoTime() - began) / 1_000_000;
                    if (late != null) {
                        refuse(new TimeoutException(
                            "Klamm has made the change, but this node has not heard of it for " + reachMs + " ms"));
                    } else {
                        for (int number = 0; number < all.size(); number++) {
                            futures.get(number).complete(all.get(number));
                        }
                    }
                });
            } catch (ApiException refusal) {
                updates.callbacks.run(() -> refuse(refusal));
            } catch (IOException | FeedException | RuntimeException fault) {
                LOG.warn("a change of ACLs failed", fault);
                updates.callbacks.run(
                    () -> refuse(new BrokerNotAvailableException("a change of ACLs failed: " + fault)));
            }
        }

        void refuse(ApiException why) {
            futures.forEach(each -> each.complete(kind.refused.apply(why)));
        }
    }

    private static final Logger LOG = LoggerFactory.getLogger(Updates.class);
    private static final int CLOSE_MS = 1_000;
    private static final int WAITING = 200;
    /** Both together, before the 30 s after which an Admin client gives a request up by itself. */
    private static final int ANSWER_MS = 28_000;
    private static final int LEAST_REACH_MS = 1_000;
    private static final int MOST_OF_COMMENT = 500;
    private static final Kind<AclCreateResult> CREATE =
        new Kind<>("/v1/acls", Updates::created, AclCreateResult::new);
    private static final Kind<AclDeleteResult> DELETE =
        new Kind<>("/v1/acls/delete", Updates::deleted, AclDeleteResult::new);

    private final Settings settings;
    private final UpdateClient client;
    private final Replica replica;
    private final Callbacks callbacks;
    private final Daemons threads = new Daemons("klamm-updates");
    private final ThreadPoolExecutor executor;
    private volatile long lastLatencyMs = -1;

    Updates(Settings settings, Link link, Replica replica, Callbacks callbacks) {
        this.settings = settings;
        this.client = new UpdateClient(settings.urls(), link);
        this.replica = replica;
        this.callbacks = callbacks;
        this.executor =
            new ThreadPoolExecutor(1, 1, 0, TimeUnit.SECONDS, new ArrayBlockingQueue<>(WAITING), threads);
    }

    /** How long the last change took until this broker decided by it; -1 if there was none. */
    long lastLatencyMs() {
        return lastLatencyMs;
    }

    List<CompletableFuture<AclCreateResult>> create(AuthorizableRequestContext context, List<AclBinding> bindings) {
        ObjectNode body = Json.MAPPER.createObjectNode();
        ArrayNode all = body.putArray("bindings");
        bindings.forEach(each -> put(all.addObject(), each.toFilter()));
        return send(CREATE, body, context, bindings.size());
    }

    List<CompletableFuture<AclDeleteResult>> delete(AuthorizableRequestContext context, List<AclBindingFilter> filters) {
        ObjectNode body = Json.MAPPER.createObjectNode();
        ArrayNode all = body.putArray("filters");
        filters.forEach(each -> put(all.addObject(), each));
        return send(DELETE, body, context, filters.size());
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
                Acl acl = FeedRecord.acl(match);
                // It is removed as well, but this Kafka has no name for it.
                if (acl.hasBinding()) {
                    gone.add(new AclBindingDeleteResult(acl.binding(), refusal(match)));
                }
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
        Kind<T> kind, ObjectNode body, AuthorizableRequestContext context, int count) {
        putContext(body, context);
        List<CompletableFuture<T>> futures = Stream.generate(CompletableFuture<T>::new).limit(count).toList();
        Change<T> change = new Change<>(this, kind, body, futures);
        try {
            executor.execute(change);
        } catch (RejectedExecutionException full) {
            change.refuse(new BrokerNotAvailableException(
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

    @Override
    public void close() {
        for (Runnable never : executor.shutdownNow()) {
            callbacks.run(() -> ((Change<?>) never).refuse(
                new BrokerNotAvailableException("the ACLs were not changed: this node's authorizer is being closed")));
        }
        client.close();
        threads.join(CLOSE_MS);
    }
}
