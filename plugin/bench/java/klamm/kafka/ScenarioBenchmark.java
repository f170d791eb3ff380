package klamm.kafka;

import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.kafka.server.authorizer.Authorizer;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;

/** What Kafka's users have met. */
@State(Scope.Benchmark)
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

    private Scenario.Request nextRequest() {
        return requests[(next++ & Integer.MAX_VALUE) % requests.length];
    }

    /** A request as a broker has it when it asks: its texts have just been read, and nothing has hashed them yet. */
    @State(Scope.Benchmark)
    public static class Read {
        private Stores.Context context;
        private List<Action> actions;

        /** Takes no part in the time that is measured. */
        @Setup(Level.Invocation)
        public void read(ScenarioBenchmark benchmark) {
            Scenario.Request request = benchmark.nextRequest().read();
            context = request.context();
            actions = request.actions();
        }
    }

    @Benchmark
    @BenchmarkMode(Mode.SampleTime)
    public List<AuthorizationResult> authorize(Read request) {
        return authorizer.authorize(request.context, request.actions);
    }

    /** Without requests that are made meanwhile, so that all bytes are the authorizer's. */
    @Benchmark
    @BenchmarkMode(Mode.AverageTime)
    public List<AuthorizationResult> authorizeAgain() {
        Scenario.Request request = nextRequest();
        return authorizer.authorize(request.context(), request.actions());
    }
}
