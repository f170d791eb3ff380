package klamm.kafka;

import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.kafka.server.authorizer.Authorizer;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;

/** What Kafka's users have met. */
@State(Scope.Benchmark)
@BenchmarkMode({Mode.AverageTime, Mode.SampleTime})
@OutputTimeUnit(TimeUnit.NANOSECONDS)
public class ScenarioBenchmark {
    @Param({"KLAMM", "KAFKA"})
    public String side;

    @Param("1000 ranges")
    public String scenario;

    private Authorizer authorizer;
    private Scenario.Request[] requests;
    private int next;

    @Setup
    public void load() throws Exception {
        Scenario store = Scenario.named(scenario);
        authorizer = Side.valueOf(side).of(store.acls());
        requests = store.requests().toArray(new Scenario.Request[0]);
    }

    @Benchmark
    public List<AuthorizationResult> authorize() {
        Scenario.Request request = requests[(next++ & Integer.MAX_VALUE) % requests.length];
        return authorizer.authorize(request.context(), request.actions());
    }
}
