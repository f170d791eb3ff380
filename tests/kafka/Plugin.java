// The OPA plugin without a broker: a question a line, its decision a line. A question is, with tabs between:
// URL, principal, host name (may be empty), address, scope of the address (0: none), operation, resource type, name.
// Without a name the question is authorizeByResourceType. Errors allow, so that they can be told from denials.
// The principal is of a class of its own, whose groups the plugin tells nobody.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.network.ClientInformation;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.kafka.server.authorizer.Authorizer;
import org.openpolicyagent.kafka.OpaAuthorizer;

class Plugin {
    private static final Map<String, Authorizer> BY_URL = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine())
            System.out.println(answer(line.split("\t", -1)));
    }

    public static final class Grouped extends KafkaPrincipal {
        Grouped(KafkaPrincipal named) {
            super(named.getPrincipalType(), named.getName());
        }

        public List<String> getGroups() {
            return List.of("pii");
        }
    }

    private static AuthorizationResult answer(String[] asked) throws Exception {
        var authorizer = BY_URL.computeIfAbsent(asked[0], Plugin::authorizer);
        var header = new RequestHeader(ApiKeys.METADATA, (short) 12, "a client", 3);
        var context = new RequestContext(
            header, "here-there-0", address(asked[2], asked[3], Integer.parseInt(asked[4])),
            new Grouped(SecurityUtils.parseKafkaPrincipal(asked[1])), ListenerName.normalised("CLIENT"),
            SecurityProtocol.SASL_PLAINTEXT, new ClientInformation("a \"client\"", "1"), false);
        var operation = AclOperation.valueOf(asked[5]);
        var type = ResourceType.valueOf(asked[6]);
        if (asked[7].isEmpty())
            return authorizer.authorizeByResourceType(context, operation, type);
        var pattern = new ResourcePattern(type, asked[7], PatternType.LITERAL);
        return authorizer.authorize(context, List.of(new Action(operation, pattern, 1, true, true))).get(0);
    }

    private static InetAddress address(String name, String text, int scope) throws Exception {
        byte[] bytes = InetAddress.getByName(text).getAddress();
        if (scope > 0)
            return Inet6Address.getByAddress(null, bytes, scope);
        return InetAddress.getByAddress(name.isEmpty() ? null : name, bytes);
    }

    private static Authorizer authorizer(String url) {
        var authorizer = new OpaAuthorizer();
        authorizer.configure(Map.of(
            "opa.authorizer.url", url,
            "opa.authorizer.allow.on.error", "true",
            "opa.authorizer.cache.expire.after.seconds", "3600"));
        return authorizer;
    }
}
