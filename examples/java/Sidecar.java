import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * May this principal do that? Asked of the Klamm beside this process, with nothing but the JDK (11 or newer):
 * {@code java Sidecar.java URL PRINCIPAL OPERATION TYPE NAME}.
 */
public final class Sidecar {
    private static final Pattern RESULT = Pattern.compile("\"results\"\\s*:\\s*\\[\\s*\"([A-Z_]+)\"\\s*\\]");
    private static final Pattern TOKEN = Pattern.compile("\"token\"\\s*:\\s*\"([^\"\\\\]+)\"");
    private static final Pattern CODE = Pattern.compile("\"code\"\\s*:\\s*\"([A-Z_]+)\"");
    private static final Pattern RETRIABLE = Pattern.compile("\"retriable\"\\s*:\\s*true");
    private static final Duration DEADLINE = Duration.ofSeconds(60);

    /** Default settings: over http it offers h2c with its first request, which Klamm declines, and stays with 1.1. */
    private final HttpClient http = HttpClient.newHttpClient();
    private final URI authorize;
    /** The newest state of the ACLs that an answer came from: no later answer may come from an older one. */
    private volatile String token;

    public Sidecar(String url) {
        authorize = URI.create(url + "/v1/authorize");
    }

    /** Whether it is ALLOWED. Throws IOException, saying why, if there is no decision within the deadline. */
    public boolean allowed(String principal, String operation, String resourceType, String resourceName)
            throws IOException, InterruptedException {
        long deadline = System.nanoTime() + DEADLINE.toNanos();
        long pauseMs = 50;
        while (true) {
            String sent = token;
            String refusal;
            boolean passing;
            try {
                HttpResponse<String> answer = ask(body(principal, operation, resourceType, resourceName, sent));
                if (answer.statusCode() == 200) {
                    String told = found(TOKEN, answer.body());
                    token = told == null ? sent : told;
                    return "ALLOWED".equals(found(RESULT, answer.body()));
                }
                refusal = answer.statusCode() + " " + answer.body();
                if (sent != null && "TOKEN_EPOCH_MISMATCH".equals(found(CODE, answer.body()))) {
                    token = null; // another store serves now, perhaps a restored one: its offsets begin anew
                    continue;
                }
                passing = RETRIABLE.matcher(answer.body()).find(); // AUTHORIZER_NOT_READY is
            } catch (IOException error) {
                refusal = String.valueOf(error); // it is not there yet, or just restarts; to ask twice does no harm
                passing = true;
            }
            if (!passing || System.nanoTime() > deadline) {
                throw new IOException("no decision: " + refusal);
            }
            Thread.sleep(ThreadLocalRandom.current().nextLong(pauseMs / 2, pauseMs + 1));
            pauseMs = Math.min(2 * pauseMs, 2_000);
        }
    }

    private HttpResponse<String> ask(String body) throws IOException, InterruptedException {
        HttpRequest request = HttpRequest.newBuilder(authorize)
            .timeout(Duration.ofSeconds(10))
            .header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString(body))
            .build();
        return http.send(request, HttpResponse.BodyHandlers.ofString());
    }

    private static String body(String principal, String operation, String type, String name, String atLeast) {
        return "{\"context\":{\"principal\":" + quoted(principal) + ",\"client_address\":\"127.0.0.1\"},"
            + "\"actions\":[{\"operation\":" + quoted(operation) + ",\"resource_type\":" + quoted(type)
            + ",\"resource_name\":" + quoted(name) + "}]"
            + (atLeast == null ? "" : ",\"at_least\":" + quoted(atLeast)) + "}";
    }

    private static String quoted(String text) {
        StringBuilder json = new StringBuilder("\"");
        for (char each : text.toCharArray()) {
            boolean plain = each >= ' ' && each <= '~' && each != '"' && each != '\\';
            json.append(plain ? String.valueOf(each) : String.format("\\u%04x", (int) each));
        }
        return json.append('"').toString();
    }

    /** What stands there in an answer of Klamm's. Quotes in texts are escaped there, so no text can look like a field. */
    private static String found(Pattern pattern, String json) {
        Matcher matcher = pattern.matcher(json);
        return matcher.find() ? matcher.group(1) : null;
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length != 5) {
            System.err.println("java Sidecar.java URL PRINCIPAL OPERATION TYPE NAME");
            System.exit(2);
        }
        boolean allowed = new Sidecar(arguments[0]).allowed(arguments[1], arguments[2], arguments[3], arguments[4]);
        System.out.println(allowed ? "ALLOWED" : "DENIED");
        System.exit(allowed ? 0 : 1);
    }
}
