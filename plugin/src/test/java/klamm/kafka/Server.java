package klamm.kafka;

import java.util.Collection;
import java.util.List;
import org.apache.kafka.common.ClusterResource;
import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.server.authorizer.AuthorizerServerInfo;

/** A broker with two listeners, one of which starts early. */
final class Server implements AuthorizerServerInfo {
    static final Endpoint EARLY = new Endpoint("EARLY", SecurityProtocol.PLAINTEXT, "127.0.0.1", 1);
    static final Endpoint CLIENT = new Endpoint("CLIENT", SecurityProtocol.PLAINTEXT, "127.0.0.1", 2);

    @Override
    public ClusterResource clusterResource() {
        return new ClusterResource("cluster");
    }

    @Override
    public int brokerId() {
        return 1;
    }

    @Override
    public Collection<Endpoint> endpoints() {
        return List.of(EARLY, CLIENT);
    }

    @Override
    public Endpoint interBrokerEndpoint() {
        return CLIENT;
    }

    @Override
    public Collection<String> earlyStartListeners() {
        return List.of("EARLY");
    }
}
