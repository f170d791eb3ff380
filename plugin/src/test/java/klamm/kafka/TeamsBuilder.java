package klamm.kafka;

import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.kafka.common.security.auth.AuthenticationContext;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.KafkaPrincipalBuilder;
import org.apache.kafka.common.security.auth.KafkaPrincipalSerde;
import org.apache.kafka.common.security.auth.SaslAuthenticationContext;

/** A broker's principal builder, as docs/kafka-broker.md shows one: who is in which group stands here. */
public final class TeamsBuilder implements KafkaPrincipalBuilder, KafkaPrincipalSerde {
    private static final Map<String, List<String>> GROUPS = Map.of(
        "alice", List.of("team"),
        "bob", List.of("team", "fired"),
        "dan", IntStream.range(0, GroupPrincipal.MOST_GROUPS + 1).mapToObj(each -> "team" + each).toList(),
        "admin", List.of("chiefs"));

    @Override
    public KafkaPrincipal build(AuthenticationContext context) {
        String name = ((SaslAuthenticationContext) context).server().getAuthorizationID();
        // Klamm's super user is called so, too.
        String known = name.equals("admin") ? "chief" : name;
        return new GroupPrincipal(KafkaPrincipal.USER_TYPE, known, GROUPS.getOrDefault(name, List.of()));
    }

    @Override
    public byte[] serialize(KafkaPrincipal principal) {
        return GroupPrincipal.serialize(principal);
    }

    @Override
    public KafkaPrincipal deserialize(byte[] bytes) {
        return GroupPrincipal.deserialize(bytes);
    }
}
