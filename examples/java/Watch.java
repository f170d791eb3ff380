import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Set;
import java.util.Timer;
import java.util.TimerTask;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Consumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Follows the ACLs of the Klamm beside this process, with nothing but the JDK (11 or newer):
 * {@code java Watch.java URL} prints each event of docs/watch.md, one a line.
 */
public final class Watch {
    private static final Pattern TYPE = Pattern.compile("^\\{\"type\":\\s*\"([a-z_]+)\"");
    private static final Pattern TOKEN = Pattern.compile("\"token\":\\s*\"([^\"\\\\]+)\"");
    /** The position is lost; or what follows the token is not kept any more. */
    private static final Set<Integer> BEGIN_ANEW = Set.of(409, 410);
    private static final Set<Integer> PASSING = Set.of(429, 500, 502, 503, 504);
    /** Three times the time between bookmarks. */
    private static final long SILENCE_MS = 15_000;

    private final HttpClient http = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(5)).build();
    private final String url;
    private String token;

    public Watch(String url) {
        this.url = url;
    }

    /**
     * Gives every event, without end. A snapshot begins anew all that was taken before, and counts from its
     * {@code synced} on; a transaction comes once and whole. Throws IOException if the caller may not watch.
     */
    public void follow(Consumer<String> take) throws IOException, InterruptedException {
        long pauseMs = 100;
        while (true) {
            long beganAt = System.nanoTime();
            HttpResponse<InputStream> answer = null;
            try {
                answer = http.send(request(), HttpResponse.BodyHandlers.ofInputStream());
            } catch (IOException error) {
                System.err.println(error + "; trying again"); // it is not there yet, or just restarts
            }
            if (answer != null && answer.statusCode() == 200) {
                read(answer.body(), take);
            } else if (answer != null) {
                String told = new String(answer.body().readAllBytes(), StandardCharsets.UTF_8);
                if (BEGIN_ANEW.contains(answer.statusCode())) {
                    token = null;
                } else if (!PASSING.contains(answer.statusCode())) {
                    throw new IOException(answer.statusCode() + ": " + told);
                }
            }
            if (System.nanoTime() - beganAt > 5_000_000_000L) {
                pauseMs = 100;
            }
            Thread.sleep(ThreadLocalRandom.current().nextLong(pauseMs / 2, pauseMs + 1));
            pauseMs = Math.min(2 * pauseMs, 5_000);
        }
    }

    private HttpRequest request() {
        String begin = token == null ? "snapshot=true" : "after=" + URLEncoder.encode(token, StandardCharsets.UTF_8);
        // Stream and token go on from one epoch of the store to the next.
        return HttpRequest.newBuilder(URI.create(url + "/v1/watch?" + begin)).header("Klamm-Epochs", "1")
            .timeout(Duration.ofSeconds(30)).build();
    }

    /** Until the stream ends, breaks or says nothing: HttpClient itself has no timeout for the parts of a body. */
    private void read(InputStream body, Consumer<String> take) {
        long[] heardAt = {System.nanoTime()};
        Timer guard = new Timer(true);
        guard.schedule(new TimerTask() {
            @Override
            public void run() {
                if (System.nanoTime() - heardAt[0] > SILENCE_MS * 1_000_000) {
                    close(body);
                }
            }
        }, 1_000, 1_000);
        // What BufferedReader takes for the end of a line is escaped within JSON.
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(body, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                heardAt[0] = System.nanoTime();
                String type = found(TYPE, line);
                if (type == null || !line.endsWith("}")) {
                    return; // cut in its midst: it comes again
                }
                take.accept(line);
                // The first event of a snapshot has a token, too, which is worth nothing before it is whole.
                if (type.equals("synced") || type.equals("transaction") || type.equals("bookmark")) {
                    token = found(TOKEN, line);
                }
            }
        } catch (IOException error) {
            System.err.println(error + "; trying again");
        } finally {
            guard.cancel();
        }
    }

    private static void close(InputStream body) {
        try {
            body.close();
        } catch (IOException ignored) {
            // It is broken already.
        }
    }

    /** Quotes in texts are escaped, so no text can look like a field; the event's own token comes before its records. */
    private static String found(Pattern pattern, String json) {
        Matcher matcher = pattern.matcher(json);
        return matcher.find() ? matcher.group(1) : null;
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length != 1) {
            System.err.println("java Watch.java URL");
            System.exit(2);
        }
        try {
            new Watch(arguments[0]).follow(event -> {
                System.out.println(event);
                System.out.flush();
            });
        } catch (IOException refused) {
            System.err.println(refused.getMessage());
            System.exit(1);
        }
    }
}
