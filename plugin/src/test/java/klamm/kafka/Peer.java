package klamm.kafka;

import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Map;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;

/** Kafka's own authorizer. Since Kafka 4.1 it needs a place for its metrics, which the oldest Kafka does not know of. */
final class Peer {
    private static final Metrics METRICS = new Metrics();

    private Peer() {}

    static StandardAuthorizer of(Map<String, String> configs) throws ReflectiveOperationException {
        StandardAuthorizer peer = new StandardAuthorizer();
        peer.configure(configs);
        for (Method method : StandardAuthorizer.class.getMethods()) {
            if (method.getName().equals("withPluginMetrics")) {
                Class<?> type = method.getParameterTypes()[0];
                method.invoke(peer, Proxy.newProxyInstance(
                    type.getClassLoader(), new Class<?>[] {type}, (proxy, called, given) -> answer(called, given)));
            }
        }
        return peer;
    }

    private static Object answer(Method called, Object[] given) {
        return switch (called.getName()) {
            case "metricName" -> new MetricName((String) given[0], "peer", (String) given[1], Map.of());
            case "addSensor" -> METRICS.sensor((String) given[0]);
            default -> null;
        };
    }
}
