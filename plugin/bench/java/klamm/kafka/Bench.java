package klamm.kafka;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.profile.GCProfiler;
import org.openjdk.jmh.results.Result;
import org.openjdk.jmh.results.RunResult;
import org.openjdk.jmh.runner.Runner;
import org.openjdk.jmh.runner.options.ChainedOptionsBuilder;
import org.openjdk.jmh.runner.options.OptionsBuilder;
import org.openjdk.jmh.runner.options.TimeValue;

/** Both authorizers on every row, in one run; writes a table of Markdown. Argument: `quick` for a row of each kind. */
public final class Bench {
    private static final String[] SIZES = {"10000/10", "10000/50", "50000/10", "50000/50", "200000/10"};
    private static final String[] DENIES = {"0", "50", "100"};
    private static final String[] SCENARIOS = {
        "nested prefixes", "one topic of 10000 principals", "1000 ranges", "7000 ACLs on 504 topics", "1000000 ACLs"};
    private static final String HEAP = "-Xmx2g";

    private Bench() {}

    public static void main(String[] arguments) throws Exception {
        boolean isQuick = List.of(arguments).contains("quick");
        List<String> grid = new ArrayList<>();
        for (String size : SIZES) {
            for (String deny : DENIES) {
                grid.add(size + "/" + deny);
            }
        }
        String[] rows = isQuick ? new String[] {grid.get(1)} : grid.toArray(new String[0]);
        System.out.println("| authorize | Klamm, ns | Kafka, ns | times | Klamm, B | Kafka, B |");
        System.out.println("|---|---|---|---|---|---|");
        table(run(options("GridBenchmark").param("grid", rows)), "grid");
        table(run(options("ScenarioBenchmark").param("scenario", SCENARIOS)), "scenario");
    }

    private static ChainedOptionsBuilder options(String benchmark) {
        return new OptionsBuilder().include("klamm.kafka." + benchmark + ".*").forks(1).jvmArgs(HEAP, "-XX:+UseSerialGC")
            .warmupIterations(3).warmupTime(TimeValue.seconds(1)).measurementIterations(5)
            .measurementTime(TimeValue.milliseconds(600)).addProfiler(GCProfiler.class).shouldFailOnError(true);
    }

    private static Collection<RunResult> run(ChainedOptionsBuilder options) throws Exception {
        return new Runner(options.verbosity(org.openjdk.jmh.runner.options.VerboseMode.SILENT).build()).run();
    }

    private static void table(Collection<RunResult> results, String row) {
        Map<String, Map<String, RunResult>> rows = new java.util.LinkedHashMap<>();
        for (RunResult each : results) {
            boolean isQuantiles = each.getParams().getMode() == Mode.SampleTime;
            rows.computeIfAbsent(each.getParams().getParam(row) + (isQuantiles ? ", p99" : ""), name -> new TreeMap<>())
                .put(each.getParams().getParam("side"), each);
        }
        rows.forEach((name, sides) -> {
            double ours = nanos(sides.get("KLAMM"));
            double theirs = nanos(sides.get("KAFKA"));
            System.out.printf(Locale.ROOT, "| %s | %,.0f | %,.0f | %,.1f | %,.0f | %,.0f |%n", name, ours, theirs,
                theirs / ours, bytes(sides.get("KLAMM")), bytes(sides.get("KAFKA")));
        });
    }

    /** The median of the rounds, which a busy machine moves least; or the 99th percentile. */
    private static double nanos(RunResult result) {
        boolean isQuantiles = result.getParams().getMode() == Mode.SampleTime;
        return isQuantiles
            ? result.getPrimaryResult().getStatistics().getPercentile(99)
            : result.getAggregatedResult().getIterationResults().stream()
                .mapToDouble(each -> each.getPrimaryResult().getScore()).sorted().toArray()[2];
    }

    private static double bytes(RunResult result) {
        Result<?> found = result.getSecondaryResults().get("gc.alloc.rate.norm");
        return found == null ? Double.NaN : found.getScore();
    }
}
