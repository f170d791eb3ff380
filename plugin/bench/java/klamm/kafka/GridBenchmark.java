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

/** Kafka's own AuthorizerBenchmark. */
@State(Scope.Benchmark)
@BenchmarkMode({Mode.AverageTime, Mode.SampleTime})
@OutputTimeUnit(TimeUnit.NANOSECONDS)
public class GridBenchmark {
    @Param({"KLAMM", "KAFKA"})
    public String side;

    /** Resources, ACLs on each, percentage of them that are denied, too. */
    @Param("10000/10/0")
    public String grid;

    private Authorizer authorizer;
    private Scenario.Request request;

    @Setup
    public void load() throws Exception {
        String[] parts = grid.split("/");
        Scenario scenario =
            Scenario.grid(Integer.parseInt(parts[0]), Integer.parseInt(parts[1]), Double.parseDouble(parts[2]));
        authorizer = Side.valueOf(side).of(scenario.acls());
        request = scenario.requests().get(0);
    }

    @Benchmark
    public List<AuthorizationResult> authorize() {
        return authorizer.authorize(request.context(), request.actions());
    }
}
