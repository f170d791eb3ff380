package klamm.kafka;

import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;
import javax.management.ObjectName;
import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.errors.AuthorizerNotReadyException;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.kafka.server.authorizer.AuthorizerServerInfo;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Kafka's own authorizer, which decides alone, and Klamm's beside it, which is only asked what it would have said. Each
 * question that they answer differently is logged once.
 */
public class CompareAuthorizer extends StandardAuthorizer implements CompareAuthorizerMXBean {
    private static final Logger LOG = LoggerFactory.getLogger(CompareAuthorizer.class);
    private static final int MOST_TOLD = 10_000;

    private final PlainAuthorizer other = new PlainAuthorizer();
    private final LongAdder same = new LongAdder();
    private final LongAdder different = new LongAdder();
    private final LongAdder notCompared = new LongAdder();
    private final Set<String> told = ConcurrentHashMap.newKeySet();
    private ObjectName bean;

    private interface Question {
        boolean isAllowed();
    }

    @Override
    public void configure(Map<String, ?> configs) {
        super.configure(configs);
        other.configure(configs);
    }

    @Override
    public Map<Endpoint, ? extends CompletionStage<Void>> start(AuthorizerServerInfo server) {
        // INVARIANT: nothing waits for the other one.
        other.start(server);
        bean = Beans.register(this, "CompareAuthorizer");
        return super.start(server);
    }

    @Override
    public List<AuthorizationResult> authorize(AuthorizableRequestContext context, List<Action> actions) {
        List<AuthorizationResult> results = super.authorize(context, actions);
        for (int number = 0; number < results.size(); number++) {
            Action action = actions.get(number);
            boolean isAllowed = results.get(number) == AuthorizationResult.ALLOWED;
            compare(context, isAllowed, action.operation() + " on " + action.resourcePattern(),
                () -> other.verdict(context, action).allowed);
        }
        return results;
    }

    @Override
    public AuthorizationResult authorizeByResourceType(
        AuthorizableRequestContext context, AclOperation operation, ResourceType type) {
        AuthorizationResult result = super.authorizeByResourceType(context, operation, type);
        compare(context, result == AuthorizationResult.ALLOWED, operation + " on any " + type,
            () -> other.authorizeByResourceType(context, operation, type) == AuthorizationResult.ALLOWED);
        return result;
    }

    private void compare(AuthorizableRequestContext context, boolean isAllowed, String what, Question question) {
        try {
            if (question.isAllowed() == isAllowed) {
                same.increment();
            } else {
                different.increment();
                tell(context, isAllowed, what);
            }
        } catch (AuthorizerNotReadyException notYet) {
            notCompared.increment();
        } catch (RuntimeException fault) {
            // INVARIANT: whatever happens to the other one, the decision stands.
            notCompared.increment();
            LOG.debug("not compared", fault);
        }
    }

    private void tell(AuthorizableRequestContext context, boolean isAllowed, String what) {
        String line = context.principal() + " from " + context.clientAddress().getHostAddress() + ": " + what;
        if (told.size() < MOST_TOLD && told.add(line)) {
            LOG.warn("Kafka {}, Klamm {}: {}", said(isAllowed), said(!isAllowed), line);
        }
    }

    private static String said(boolean isAllowed) {
        return isAllowed ? "allows" : "denies";
    }

    @Override
    public long getSame() {
        return same.sum();
    }

    @Override
    public long getDifferent() {
        return different.sum();
    }

    @Override
    public long getNotCompared() {
        return notCompared.sum();
    }

    @Override
    public void close() throws IOException {
        Beans.unregister(bean);
        other.close();
        super.close();
    }
}
