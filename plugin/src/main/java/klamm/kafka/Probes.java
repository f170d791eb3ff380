package klamm.kafka;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** Asks other URLs how old their state is, by a thread of its own, while the stream of one is read. */
final class Probes implements AutoCloseable {
    private static final Map<String, String> HEADERS = Map.of("Klamm-Epochs", "1");
    private static final int CONNECT_MS = 3_000;
    private static final int ANSWER_MS = 10_000;
    private static final int MOST_OF_LINE = 64 << 10;
    private static final int CLOSE_MS = 1_000;
    private static final int IDLE_S = 10;
    private static final double MS_PER_S = 1_000;
    private static final double NANOS_PER_S = 1e9;

    private final Link link;
    private final ConcurrentLinkedQueue<Answer> answers = new ConcurrentLinkedQueue<>();
    private final Daemons threads = new Daemons("klamm-probe");
    private final ThreadPoolExecutor executor = new ThreadPoolExecutor(
        0, 1, IDLE_S, TimeUnit.SECONDS, new SynchronousQueue<>(), threads);
    private final CurrentConnection current = new CurrentConnection();

    /**
     * What a URL said of the state that it has.
     *
     * @param code by which it refused; null
     * @param ageS null: it did not say
     * @param at when it said so
     */
    record Answer(int url, String code, Double ageS, double at) {}

    Probes(Link link) {
        this.link = link;
    }

    /** One at a time: while another is asked, this is none. */
    void ask(int number, URI url, Token held) {
        try {
            executor.execute(() -> answers.add(answer(number, url, held)));
        } catch (RejectedExecutionException busy) {
            // It is asked again in some seconds.
        }
    }

    /** Those that have come since the last time. */
    List<Answer> answers() {
        List<Answer> all = new ArrayList<>();
        for (Answer each = answers.poll(); each != null; each = answers.poll()) {
            all.add(each);
        }
        return all;
    }

    private Answer answer(int number, URI url, Token held) {
        String code = null;
        Probe probe = new Probe();
        try (Connection connection = current.set(link.to(url, HEADERS))) {
            connection.expireIn(CONNECT_MS);
            connection.connect();
            connection.expireIn(ANSWER_MS);
            Response answer = connection.get(Follower.path(held));
            if (answer.status() == Response.OK) {
                takeBookmarks(answer.body(), probe);
            } else {
                code = Refusal.of(answer).code();
            }
        } catch (IOException | FeedException | RuntimeException fault) {
            // What it has said until then counts.
        }
        return new Answer(number, code, probe.ageS(), System.nanoTime() / NANOS_PER_S);
    }

    /** Until the probe has what it needs. Longer lines are passed over. */
    private static void takeBookmarks(InputStream body, Probe probe) throws IOException, FeedException {
        InputStream in = new BufferedInputStream(body);
        byte[] line = new byte[MOST_OF_LINE];
        int length = 0;
        for (int next = in.read(); next >= 0; next = in.read()) {
            if (next != '\n') {
                if (length < MOST_OF_LINE) {
                    line[length] = (byte) next;
                }
                length = Math.min(length, MOST_OF_LINE) + 1;
                continue;
            }
            JsonNode event = length == 0 || length > MOST_OF_LINE ? null : parse(line, length);
            length = 0;
            if (event != null && !goesOn(event, probe)) {
                return;
            }
        }
    }

    private static boolean goesOn(JsonNode event, Probe probe) throws FeedException {
        if (!event.path("type").asText().equals("bookmark")) {
            return true;
        }
        Token token = Token.parse(event.path("token").asText());
        JsonNode ageMs = event.path("age_ms");
        return ageMs.isNumber() && probe.bookmark(token, ageMs.asLong() / MS_PER_S);
    }

    private static JsonNode parse(byte[] line, int length) {
        try {
            return Json.object(new Lines.Line(line, 0, length));
        } catch (FeedException notJson) {
            return null;
        }
    }

    @Override
    public void close() {
        executor.shutdown();
        current.close();
        threads.join(CLOSE_MS);
    }
}
