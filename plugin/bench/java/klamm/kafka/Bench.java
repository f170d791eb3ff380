package klamm.kafka;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.profile.GCProfiler;
import org.openjdk.jmh.results.RunResult;
import org.openjdk.jmh.runner.Runner;
import org.openjdk.jmh.runner.options.ChainedOptionsBuilder;
import org.openjdk.jmh.runner.options.OptionsBuilder;
import org.openjdk.jmh.runner.options.TimeValue;
import org.openjdk.jmh.runner.options.VerboseMode;

/**
 * Both authorizers on every row, in one run; writes a table of Markdown. Arguments: some of the rows.
 *
 * Times are quantiles of single calls, which a busy machine moves least. Bytes are what an average call allocates.
 */
public final class Bench {
    private static final String[] SIZES = {"10000/10", "10000/50", "50000/10", "50000/50", "200000/10", "200000/50"};
    private static final String[] DENIES = {"0", "50", "100"};
    private static final String[] SCENARIOS = {
        "nested prefixes", "one topic of 10000 principals", "1000 ranges", "7000 ACLs on 504 topics", "1000000 ACLs"};
    private static final String HEAP = "-Xmx2g";
    private static final Map<String, String> HEAPS =
        Map.of("50000/50", "-Xmx5g", "200000/10", "-Xmx5g", "200000/50", "-Xmx15g");

    private Bench() {}

    public static void main(String[] arguments) throws Exception {
        List<String> rows = new ArrayList<>(List.of(SCENARIOS));
        for (String size : SIZES) {
            for (String deny : DENIES) {
                rows.add(size + "/" + deny);
            }
        }
        System.out.println("| authorize | Klamm, p50 | Kafka, p50 | times | Klamm, p99 | Kafka, p99 | Klamm, B | Kafka, B |");
        System.out.println("|---|---|---|---|---|---|---|---|");
        for (String row : arguments.length == 0 ? rows : List.of(arguments)) {
            boolean isGrid = row.indexOf('/') >= 0;
            row(isGrid ? "GridBenchmark" : "ScenarioBenchmark", isGrid ? "grid" : "scenario", row);
        }
        for (Side side : Side.values()) {
            System.out.println("an ACL of 1000000, " + side + ": " + memory(side) + " bytes of heap");
        }
    }

    private static void row(String benchmark, String name, String value) throws Exception {
        ChainedOptionsBuilder options = new OptionsBuilder().include("klamm.kafka." + benchmark + ".authorize")
            .param(name, value).forks(1).jvmArgs(heapOf(value), "-XX:+UseSerialGC").warmupIterations(4)
            .warmupTime(TimeValue.seconds(1)).measurementIterations(3)
            .measurementTime(TimeValue.milliseconds(500)).addProfiler(GCProfiler.class).shouldFailOnError(true);
        Collection<RunResult> results = new Runner(options.verbosity(VerboseMode.SILENT).build()).run();
        Map<String, double[]> sides = new HashMap<>();
        for (RunResult each : results) {
            double[] figures = sides.computeIfAbsent(each.getParams().getParam("side"), side -> new double[3]);
            if (each.getParams().getMode() == Mode.SampleTime) {
                figures[0] = each.getPrimaryResult().getStatistics().getPercentile(50);
                figures[1] = each.getPrimaryResult().getStatistics().getPercentile(99);
            } else {
                figures[2] = each.getSecondaryResults().get("gc.alloc.rate.norm").getScore();
            }
        }
        double[] ours = sides.get("KLAMM");
        double[] theirs = sides.get("KAFKA");
        System.out.printf(
            Locale.ROOT, "| %s | %,.0f ns | %,.0f ns | %,.1f | %,.0f ns | %,.0f ns | %,.0f | %,.0f |%n", value, ours[0],
            theirs[0], theirs[0] / ours[0], ours[1], theirs[1], ours[2], theirs[2]);
    }

    /** Where StandardAuthorizer's ACLs fill the heap, its calls would be collections of garbage. */
    private static String heapOf(String row) {
        return HEAPS.getOrDefault(row.substring(0, Math.max(row.lastIndexOf('/'), 0)), HEAP);
    }

    private static String memory(Side side) throws Exception {
        Process process = new ProcessBuilder(
            ProcessHandle.current().info().command().orElse("java"), HEAP, "-XX:+UseSerialGC", "-cp",
            System.getProperty("java.class.path"), Memory.class.getName(), side.name())
            .redirectError(ProcessBuilder.Redirect.DISCARD).start();
        return new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8).trim();
    }
}
