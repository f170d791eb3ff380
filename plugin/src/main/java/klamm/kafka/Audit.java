package klamm.kafka;

import java.util.Locale;
import klamm.kafka.Decisions.Verdict;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Kafka's own audit log: its logger, its levels and its words. */
final class Audit {
    private static final Logger LOG = LoggerFactory.getLogger("kafka.authorizer.logger");

    private Audit() {}

    /** Whether a line about this would be written, so that it is worth to find out which ACL has decided. */
    static boolean isWanted(Action action, Verdict verdict) {
        if (verdict.allowed) {
            return action.logIfAllowed() ? LOG.isDebugEnabled() : LOG.isTraceEnabled();
        }
        return action.logIfDenied() ? LOG.isInfoEnabled() : LOG.isTraceEnabled();
    }

    /** @param acl null unless an ACL has decided */
    static void log(AuthorizableRequestContext context, Action action, Verdict verdict, Acl acl) {
        String line = line(context, action, verdict, acl);
        if (verdict.allowed && action.logIfAllowed()) {
            LOG.debug(line);
        } else if (!verdict.allowed && action.logIfDenied()) {
            LOG.info(line);
        } else {
            LOG.trace(line);
        }
    }

    private static String line(AuthorizableRequestContext context, Action action, Verdict verdict, Acl acl) {
        return "Principal = " + context.principal() + " is " + (verdict.allowed ? "Allowed" : "Denied")
            + " operation = " + action.operation() + " from host = " + context.clientAddress().getHostAddress()
            + " on resource = " + word(action.resourcePattern().resourceType()) + ":"
            + action.resourcePattern().patternType() + ":" + action.resourcePattern().name() + " for request = "
            + request(context.requestType()) + " with resourceRefCount = " + action.resourceReferenceCount()
            + " based on rule " + rule(verdict, acl);
    }

    private static String rule(Verdict verdict, Acl acl) {
        return acl == null ? verdict.rule : verdict.rule + "(acl=" + acl + ")";
    }

    private static String word(ResourceType type) {
        StringBuilder word = new StringBuilder();
        for (String part : type.name().split("_")) {
            word.append(part.charAt(0)).append(part.substring(1).toLowerCase(Locale.ROOT));
        }
        return word.toString();
    }

    private static String request(int key) {
        return ApiKeys.hasId(key) ? ApiKeys.forId(key).name : String.valueOf(key);
    }
}
