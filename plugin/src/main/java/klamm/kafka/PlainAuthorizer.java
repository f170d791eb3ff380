package klamm.kafka;

import java.io.IOException;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.atomic.LongAdder;
import javax.management.ObjectName;
import klamm.kafka.Decisions.Verdict;
import klamm.kafka.Index.Principal;
import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.Reconfigurable;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.errors.AuthorizerNotReadyException;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.server.authorizer.AclCreateResult;
import org.apache.kafka.server.authorizer.AclDeleteResult;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.authorizer.AuthorizerServerInfo;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A broker's authorizer that decides by Klamm's ACLs, from a replica in the broker's own memory (docs/kafka-broker.md).
 * For brokers before Kafka 4.1; all others take {@link KlammAuthorizer}.
 */
public class PlainAuthorizer implements Authorizer, Reconfigurable, KlammAuthorizerMXBean {
    private static final Logger LOG = LoggerFactory.getLogger(PlainAuthorizer.class);

    private static final List<AuthorizationResult> ONE_ALLOWED = List.of(AuthorizationResult.ALLOWED);
    private static final List<AuthorizationResult> ONE_DENIED = List.of(AuthorizationResult.DENIED);
    private static final int WAKE_MS = 1_000;

    private final LongAdder allowed = new LongAdder();
    private final LongAdder denied = new LongAdder();
    private final List<CompletableFuture<Void>> starting = new ArrayList<>();
    private final Figures figures = new Figures();
    private final Callbacks callbacks = new Callbacks();
    private final Timer timer = new Timer();
    private Replica replica;
    private Follower follower;
    private Updates updates;
    /** Null unless there is one. */
    private DecisionLog decisionLog;
    private ObjectName bean;
    /** What holds before there is an image. */
    private volatile Rules ownRules;
    private volatile long maxStalenessMs;

    @Override
    public void configure(Map<String, ?> configs) {
        Settings settings = Settings.of(configs);
        Link link = new Link(settings, timer);
        take(settings);
        replica = new Replica(settings.own(), callbacks);
        follower = new Follower(settings.urls(), link, new StateKeeper(state(settings)), replica, figures);
        updates = new Updates(settings, link, replica, callbacks);
        decisionLog = decisionLog(settings, configs);
    }

    private static DecisionLog decisionLog(Settings settings, Map<String, ?> configs) {
        DecisionFiles.Bounds bounds = settings.decisionLog();
        if (bounds == null) {
            return null;
        }
        Object node = configs.containsKey("node.id") ? configs.get("node.id") : configs.get("broker.id");
        return new DecisionLog(new DecisionFiles(bounds), "kafka-node-" + (node == null ? "?" : node));
    }

    private static StateFile state(Settings settings) {
        try {
            return settings.state() == null ? null : StateFile.in(settings.state());
        } catch (IOException fault) {
            throw new ConfigException("`" + Settings.STATE_DIR + "` can't be used: " + fault.getMessage());
        }
    }

    private void take(Settings settings) {
        ownRules = Rules.of(settings.own(), Map.of());
        maxStalenessMs = settings.maxStalenessMs() == null ? Long.MAX_VALUE : settings.maxStalenessMs();
    }

    @Override
    public Set<String> reconfigurableConfigs() {
        return Settings.DYNAMIC;
    }

    @Override
    public void validateReconfiguration(Map<String, ?> configs) {
        Settings.of(configs);
    }

    @Override
    public void reconfigure(Map<String, ?> configs) {
        Settings settings = Settings.of(configs);
        take(settings);
        replica.reconfigure(settings.own());
    }

    @Override
    public Map<Endpoint, ? extends CompletionStage<Void>> start(AuthorizerServerInfo server) {
        Map<Endpoint, CompletableFuture<Void>> futures = new HashMap<>();
        for (Endpoint endpoint : server.endpoints()) {
            boolean isEarly = endpoint.listenerName().map(server.earlyStartListeners()::contains).orElse(false);
            CompletableFuture<Void> future =
                isEarly ? CompletableFuture.completedFuture(null) : new CompletableFuture<>();
            futures.put(endpoint, future);
            starting.add(future);
        }
        replica.loaded().whenComplete((done, fault) -> starting.forEach(each -> complete(each, fault)));
        bean = Beans.register(this, "KlammAuthorizer");
        timer.every(WAKE_MS, replica::wake);
        String clusterId = server.clusterResource().clusterId();
        follower.start(clusterId == null ? "" : clusterId);
        if (decisionLog != null) {
            decisionLog.start();
        }
        return futures;
    }

    /** Done when there is an image. */
    CompletableFuture<Void> loaded() {
        return replica.loaded();
    }

    /** The state that is decided on; null before the first. */
    String token() {
        Image image = replica.image();
        return image == null ? null : image.token().toString();
    }

    private static void complete(CompletableFuture<Void> future, Throwable fault) {
        if (fault == null) {
            future.complete(null);
        } else {
            future.completeExceptionally(fault);
        }
    }

    @Override
    public List<AuthorizationResult> authorize(AuthorizableRequestContext context, List<Action> actions) {
        int size = actions.size();
        if (size == 0) {
            return List.of();
        }
        Image image = replica.image();
        boolean isSuperUser = isSuperUser(context, image);
        if (!isSuperUser) {
            checkReady(image);
        }
        Principal own = isSuperUser ? null : Decisions.own(image.index(), context.principal());
        if (size == 1) {
            return decided(context, image, own, isSuperUser, actions.get(0)) ? ONE_ALLOWED : ONE_DENIED;
        }
        List<AuthorizationResult> results = new ArrayList<>(size);
        for (Action action : actions) {
            boolean isAllowed = decided(context, image, own, isSuperUser, action);
            results.add(isAllowed ? AuthorizationResult.ALLOWED : AuthorizationResult.DENIED);
        }
        return results;
    }

    /** Decides, counts and logs. */
    private boolean decided(
        AuthorizableRequestContext context, Image image, Principal own, boolean isSuperUser, Action action) {
        Verdict verdict = isSuperUser ? superUser(action) : decide(image, own, context.clientAddress(), action);
        (verdict.allowed ? allowed : denied).increment();
        boolean isAudited = Audit.isWanted(action, verdict);
        boolean isLogged = decisionLog != null && DecisionLog.isWanted(action);
        if (isAudited || isLogged) {
            Acl acl = decidingAcl(verdict, image, own, context, action);
            if (isAudited) {
                Audit.log(context, action, verdict, acl);
            }
            if (isLogged) {
                decisionLog.take(context, action, verdict, acl, image);
            }
        }
        return verdict.allowed;
    }

    private boolean isSuperUser(AuthorizableRequestContext context, Image image) {
        Rules rules = image == null ? ownRules : image.rules();
        return rules.isSuperUser(context.principal());
    }

    private void checkReady(Image image) {
        // INVARIANT: nobody but a super user is decided on without the store's state, or from one that is too old.
        if (image == null) {
            throw new AuthorizerNotReadyException();
        }
        if (maxStalenessMs != Long.MAX_VALUE && replica.ageMs() > maxStalenessMs) {
            throw new AuthorizerNotReadyException();
        }
    }

    private static Verdict superUser(Action action) {
        checkLiteral(action.resourcePattern());
        return Verdict.SUPER_USER;
    }

    private static Verdict decide(Image image, Principal own, InetAddress from, Action action) {
        ResourcePattern pattern = action.resourcePattern();
        checkLiteral(pattern);
        return Decisions.decide(image, own, from, action.operation(), pattern.resourceType().code(), pattern.name());
    }

    private static void checkLiteral(ResourcePattern pattern) {
        if (pattern.patternType() != PatternType.LITERAL) {
            throw new IllegalArgumentException(
                "Only literal resources are supported. Got: " + pattern.patternType());
        }
    }

    private static Acl decidingAcl(
        Verdict verdict, Image image, Principal own, AuthorizableRequestContext context, Action action) {
        ResourcePattern pattern = action.resourcePattern();
        return Decisions.decidingAcl(verdict, image, own, context.clientAddress(), action.operation(),
            pattern.resourceType().code(), pattern.name());
    }

    @Override
    public AuthorizationResult authorizeByResourceType(
        AuthorizableRequestContext context, AclOperation operation, ResourceType resourceType) {
        if (resourceType == ResourceType.ANY || resourceType == ResourceType.UNKNOWN) {
            throw new IllegalArgumentException(
                "Must specify a non-filter resource type for authorizeByResourceType");
        }
        if (operation == AclOperation.ANY || operation == AclOperation.UNKNOWN) {
            throw new IllegalArgumentException(
                "Must specify a non-filter operation type for authorizeByResourceType");
        }
        Image image = replica.image();
        boolean isAllowed = isSuperUser(context, image);
        if (!isAllowed) {
            checkReady(image);
            Principal own = Decisions.own(image.index(), context.principal());
            isAllowed = Decisions.onAnyResource(image, own, context.clientAddress(), operation, resourceType);
        }
        (isAllowed ? allowed : denied).increment();
        return isAllowed ? AuthorizationResult.ALLOWED : AuthorizationResult.DENIED;
    }

    @Override
    public List<? extends CompletionStage<AclCreateResult>> createAcls(
        AuthorizableRequestContext context, List<AclBinding> bindings) {
        return updates.create(context, bindings);
    }

    @Override
    public List<? extends CompletionStage<AclDeleteResult>> deleteAcls(
        AuthorizableRequestContext context, List<AclBindingFilter> filters) {
        return updates.delete(context, filters);
    }

    @Override
    public Iterable<AclBinding> acls(AclBindingFilter filter) {
        return loadedImage().index().matching(filter);
    }

    private Image loadedImage() {
        Image image = replica.image();
        if (image == null) {
            throw new AuthorizerNotReadyException();
        }
        return image;
    }

    @Override
    public int aclCount() {
        return getAclCount();
    }

    @Override
    public long getRequests() {
        return allowed.sum() + denied.sum();
    }

    @Override
    public long getAllowed() {
        return allowed.sum();
    }

    @Override
    public long getDenied() {
        return denied.sum();
    }

    @Override
    public int getAclCount() {
        Image image = replica.image();
        return image == null ? -1 : image.index().count();
    }

    @Override
    public long getReplicaAgeMs() {
        return replica.image() == null || replica.ageMs() == Long.MAX_VALUE ? -1 : replica.ageMs();
    }

    @Override
    public long getOffset() {
        Image image = replica.image();
        return image == null ? -1 : image.offset();
    }

    @Override
    public long getConnections() {
        return figures.connections.sum();
    }

    @Override
    public long getSnapshots() {
        return figures.snapshots.sum();
    }

    @Override
    public long getRefusedEvents() {
        return figures.refused.sum();
    }

    @Override
    public long getUnknownEvents() {
        return figures.unknown.sum();
    }

    @Override
    public long getFollowerErrors() {
        return figures.errors.sum();
    }

    @Override
    public int getUnknownProperties() {
        return replica.unknownProperties();
    }

    @Override
    public long getLastUpdateLatencyMs() {
        return updates.lastLatencyMs();
    }

    @Override
    public long getDecisionsNotLogged() {
        return decisionLog == null ? 0 : decisionLog.lost();
    }

    @Override
    public void close() throws IOException {
        if (replica == null) {
            return;
        }
        updates.close();
        follower.close();
        replica.close();
        timer.close();
        callbacks.close();
        if (decisionLog != null) {
            decisionLog.close();
        }
        Beans.unregister(bean);
    }
}
