package klamm.kafka;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.json.JsonWriteFeature;
import java.io.IOException;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.List;
import java.util.Objects;
import java.util.UUID;
import klamm.kafka.Decisions.Verdict;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;

/** A line of the decision log: all that Klamm's own have, and `count`, how often it was decided in that minute. */
final class DecisionLine {
    private static final JsonFactory JSON = JsonFactory.builder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build();
    private static final DateTimeFormatter TIME =
        DateTimeFormatter.ofPattern("uuuu-MM-dd'T'HH:mm:ss.SSSSSS'Z'").withZone(ZoneOffset.UTC);

    private DecisionLine() {}

    /** All but the end. */
    static String of(
        AuthorizableRequestContext context, Action action, Verdict verdict, Acl acl, Image image, String caller) {
        StringWriter line = new StringWriter();
        try (JsonGenerator out = JSON.createGenerator(line)) {
            out.disable(JsonGenerator.Feature.AUTO_CLOSE_JSON_CONTENT);
            out.writeStartObject();
            out.writeStringField("time", TIME.format(Instant.now()));
            out.writeStringField("epoch", image == null ? "" : image.token().epoch().toString());
            out.writeNumberField("offset", image == null ? -1 : image.offset());
            out.writeStringField(
                "principal", context.principal().getPrincipalType() + ":" + context.principal().getName());
            List<String> groups = GroupPrincipal.groupsOf(context.principal());
            if (!groups.isEmpty()) {
                out.writeArrayFieldStart("groups");
                for (String group : groups) {
                    out.writeString(group);
                }
                out.writeEndArray();
            }
            out.writeStringField("host", context.clientAddress().getHostAddress());
            out.writeStringField("listener_name", context.listenerName());
            out.writeStringField("security_protocol", Objects.toString(context.securityProtocol(), null));
            out.writeNumberField("request_type", context.requestType());
            out.writeNumberField("request_version", context.requestVersion());
            out.writeStringField("client_id", context.clientId());
            out.writeNumberField("correlation_id", context.correlationId());
            out.writeStringField("caller", caller);
            out.writeStringField("operation", action.operation().name());
            out.writeStringField("resource_type", action.resourcePattern().resourceType().name());
            out.writeStringField("resource_name", action.resourcePattern().name());
            out.writeStringField("result", verdict.allowed ? "ALLOWED" : "DENIED");
            out.writeStringField("rule", verdict.rule);
            out.writeStringField("acl_id", acl == null ? null : new UUID(acl.idHigh(), acl.idLow()).toString());
        } catch (IOException never) {
            throw new UncheckedIOException(never);
        }
        return line.toString();
    }

    static String ended(String line, long count) {
        return line + ",\"sampled\":1.0,\"count\":" + count + "}";
    }
}
