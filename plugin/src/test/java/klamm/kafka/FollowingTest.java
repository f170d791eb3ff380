package klamm.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.stream.Stream;
import klamm.kafka.Epochs.Cause;
import klamm.kafka.Epochs.Epoch;
import klamm.kafka.Following.Ask;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/**
 * The one table of cases that says how a follower goes on, which the tests of the service read as well. A case with a
 * word that this test does not know fails.
 */
final class FollowingTest {
    private static final Path TABLE = Path.of("..", "tests", "following", "cases.jsonl");
    private static final int LEAST_CASES = 60;
    private static final double CLOSE = 1e-6;
    private static final Map<String, Set<String>> FIELDS = Map.of(
        "judge", Set.of("epochs", "last_offset", "position", "store_time", "standing"),
        "replace", Set.of("held", "offered", "epochs", "cause", "may_replace"),
        "follow", Set.of("urls", "held", "epochs", "steps"),
        "probe", Set.of("bookmarks", "age_s"));

    private final Map<String, UUID> ids = new HashMap<>();
    private final List<JsonNode> cases = new ArrayList<>();

    FollowingTest() throws IOException {
        List<String> lines = Files.readAllLines(TABLE);
        JsonNode names = Json.MAPPER.readTree(lines.get(0)).path("epochs");
        names.fields().forEachRemaining(each -> ids.put(each.getKey(), UUID.fromString(each.getValue().textValue())));
        for (String line : lines.subList(1, lines.size())) {
            cases.add(Json.MAPPER.readTree(line));
        }
    }

    @Test
    void thereAreEnoughCases() {
        assertTrue(cases.size() >= LEAST_CASES);
    }

    @TestFactory
    Stream<DynamicTest> cases() {
        return cases.stream().map(each -> dynamicTest(each.path("case").asText(), () -> check(each)));
    }

    private void check(JsonNode row) {
        String kind = row.path("kind").asText();
        assertTrue(FIELDS.containsKey(kind), "an unknown kind of case: " + kind);
        Set<String> unknown = names(row);
        unknown.removeAll(Set.of("case", "items", "kind"));
        unknown.removeAll(FIELDS.get(kind));
        assertEquals(Set.of(), unknown);
        switch (kind) {
            case "judge" -> {
                Instant at = row.has("store_time") ? Instant.parse(row.path("store_time").asText()) : null;
                assertEquals(
                    row.path("standing").asText(),
                    epochs(row.path("epochs"))
                        .judge(token(row.path("position")), row.path("last_offset").asLong(), at).name());
            }
            case "replace" -> assertEquals(
                row.path("may_replace").booleanValue(),
                Epochs.mayReplace(
                    token(row.path("held")), token(row.path("offered")), epochs(row.path("epochs")),
                    Cause.valueOf(row.path("cause").asText())));
            case "follow" -> {
                assertTrue(!row.has("epochs"), "a follower begins with the epoch of what it holds");
                Following following = new Following(row.path("urls").intValue(), token(row.path("held")));
                for (JsonNode step : row.path("steps")) {
                    new Step(step).run(following);
                }
            }
            case "probe" -> checkProbe(row);
            default -> fail(kind);
        }
    }

    private void checkProbe(JsonNode row) {
        Probe probe = new Probe();
        for (JsonNode each : row.path("bookmarks")) {
            boolean readsOn = probe.bookmark(token(each.get(0)), each.get(1).doubleValue());
            assertEquals(each.get(2).booleanValue(), readsOn, row::toString);
        }
        Double expected = row.path("age_s").isNull() ? null : Double.valueOf(row.path("age_s").doubleValue());
        assertEquals(expected, probe.ageS());
    }

    private static Set<String> names(JsonNode fields) {
        Set<String> names = new HashSet<>();
        fields.fieldNames().forEachRemaining(names::add);
        return names;
    }

    /** Null for null. */
    private Token token(JsonNode text) {
        if (text.isNull()) {
            return null;
        }
        String[] parts = text.textValue().split(":");
        return new Token(id(parts[0]), Long.parseLong(parts[1]));
    }

    private UUID id(String name) {
        assertNotNull(ids.get(name), name);
        return ids.get(name);
    }

    private List<Epoch> rows(JsonNode pairs) {
        List<Epoch> rows = new ArrayList<>();
        pairs.forEach(pair -> rows.add(new Epoch(id(pair.get(0).textValue()), pair.get(1).longValue())));
        return rows;
    }

    private Epochs epochs(JsonNode pairs) {
        Epochs epochs = Epochs.of(rows(pairs));
        assertNotNull(epochs);
        return epochs;
    }

    /** What is done, and what is expected then; each field of it must be used by one of both. */
    private final class Step {
        private final JsonNode step;
        private final Set<String> left;
        private final double now;

        Step(JsonNode step) {
            this.step = step;
            this.left = names(step);
            this.now = field("at").doubleValue();
        }

        private JsonNode field(String name) {
            assertTrue(left.remove(name), () -> "`" + name + "` is missing in " + step);
            return step.get(name);
        }

        void run(Following following) {
            Object answer = done(following, field("do").textValue());
            for (String name : Set.copyOf(left)) {
                JsonNode expected = field(name);
                switch (name) {
                    case "reads_on" -> assertEquals(expected.booleanValue(), answer, step::toString);
                    case "action" -> assertEquals(expected.textValue(), String.valueOf(answer), step::toString);
                    case "probe_url" -> assertEquals(expected.intValue(), following.probeUrl(), step::toString);
                    case "held" -> assertEquals(token(expected), following.held(), step::toString);
                    case "age_s" -> checkAge(expected, following.ageS(now));
                    case "ask" -> checkAsk(expected, following.ask());
                    default -> fail("an unknown expectation: " + name);
                }
            }
        }

        private Object done(Following following, String what) {
            switch (what) {
                case "opened" -> following.opened(now);
                case "refused" -> following.refused(field("code").textValue(), now);
                case "broke" -> following.broke(now);
                case "failed_check" -> following.failedCheck(now);
                case "unknown" -> {
                    return true;
                }
                case "probed" -> {
                    int url = field("url").intValue();
                    following.probed(url, field("code").textValue(), number(field("age_s")), now);
                }
                case "resume" -> following.resume(
                    token(field("token")), epochs(field("epochs")), number(field("equal_at")));
                default -> {
                    return answered(following, what);
                }
            }
            return null;
        }

        private Object answered(Following following, String what) {
            return switch (what) {
                case "snapshot" -> following.snapshot(
                    token(field("token")), rows(field("epochs")), field("acls").longValue(),
                    field("configs").longValue(), now);
                case "acls" -> following.acls(field("count").intValue(), field("size").longValue(), now);
                case "configs" -> following.configs(field("count").intValue(), field("size").longValue(), now);
                case "synced" -> following.synced(token(field("token")), now);
                case "epoch" -> following.epoch(
                    id(field("epoch").textValue()), field("first_offset").longValue(), now);
                case "transaction" -> following.transaction(
                    token(field("token")), field("first_offset").longValue(), now);
                case "bookmark" -> following.bookmark(token(field("token")), field("age_s").doubleValue(), now);
                case "check" -> following.check(now);
                default -> fail("an unknown event: " + what);
            };
        }

        private static Double number(JsonNode value) {
            return value.isNull() ? null : Double.valueOf(value.doubleValue());
        }

        private void checkAge(JsonNode expected, Double age) {
            if (expected.isNull()) {
                assertEquals(null, age, step::toString);
            } else {
                assertEquals(expected.doubleValue(), age, CLOSE, step::toString);
            }
        }

        private void checkAsk(JsonNode expected, Ask ask) {
            Set<String> unknown = names(expected);
            unknown.removeAll(Set.of("url", "after", "snapshot"));
            assertEquals(Set.of(), unknown);
            assertEquals(expected.path("url").intValue(), ask.url(), step::toString);
            assertEquals(expected.has("after") ? token(expected.path("after")) : null, ask.after(), step::toString);
            String cause = ask.cause() == null ? null : ask.cause().name();
            assertEquals(expected.path("snapshot").textValue(), cause, step::toString);
        }
    }
}
