package klamm.kafka;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.BrokerNotAvailableException;
import org.apache.kafka.common.protocol.Errors;

/**
 * Sends a change to the first of Klamm's URLs that takes it.
 *
 * <p>INVARIANT: a change that may have been received is not sent again, unless Klamm itself says that nothing of it was
 * written. So each URL is asked whether it is ready first: that finds what hangs before the change is sent.
 */
final class UpdateClient implements AutoCloseable {
    private static final int CONNECT_MS = 3_000;
    private static final int READY_MS = 3_000;
    private static final int READ_MS = 20_000;
    private static final int MOST_OF_READY = 64 << 10;
    private static final int TOO_MANY_REQUESTS = 429;
    private static final int FIRST_SERVER_ERROR = 500;
    private static final int SHARE_OF_HEAP = 4;
    private static final long MOST_OF_ANSWER = 256 << 20;
    /** Klamm's own words for: nothing of the request was done. */
    private static final Set<String> NOTHING_DONE =
        Set.of("STORE_UNAVAILABLE", "AUTHORIZER_NOT_READY", "OVERLOADED", "THROTTLING_QUOTA_EXCEEDED");

    private final List<URI> urls;
    private final Link link;
    private final CurrentConnection current = new CurrentConnection();

    UpdateClient(List<URI> urls, Link link) {
        this.urls = urls;
        this.link = link;
    }

    /** The answer to a change. Raises ApiException, which says whether the ACLs may have been changed. */
    JsonNode post(String path, byte[] body) {
        List<String> whys = new ArrayList<>();
        for (URI url : urls) {
            try (Connection connection = connectToReady(url)) {
                connection.expireIn(READ_MS);
                connection.beginPost(path, body);
                Response answer = send(connection, body);
                if (answer.status() == Response.OK) {
                    return read(answer, url);
                }
                Refusal refusal = refusal(answer, url);
                if (refusal.code() == null && refusal.status() >= FIRST_SERVER_ERROR) {
                    throw unknown(url + " answered", new IOException(link.masked(refusal.toString())));
                }
                if (!NOTHING_DONE.contains(String.valueOf(refusal.code()))) {
                    throw exception(refusal);
                }
                whys.add(url + " (" + refusal + ")");
            } catch (IOException notSent) {
                whys.add(url + " (" + notSent + ")");
            }
        }
        throw new BrokerNotAvailableException(
            "the ACLs were not changed: Klamm can't be reached at " + link.masked(String.join(", ", whys)));
    }

    /** A connection to a service that is ready. Raises IOException if it is not, or does not answer. */
    private Connection connectToReady(URI url) throws IOException {
        Connection connection = connect(url);
        try {
            connection.expireIn(READY_MS);
            Response answer = connection.get("/readyz");
            byte[] text = answer.bytes(MOST_OF_READY);
            if (answer.status() == TOO_MANY_REQUESTS || answer.status() >= FIRST_SERVER_ERROR) {
                throw new IOException("it is not ready: " + answer.status());
            }
            if (answer.isReusable() && text.length < MOST_OF_READY && answer.body().read() < 0) {
                return connection;
            }
        } catch (IOException away) {
            connection.close();
            throw away;
        }
        connection.close();
        return connect(url);
    }

    private Connection connect(URI url) throws IOException {
        Connection connection = current.set(link.to(url, Map.of()));
        try {
            connection.expireIn(CONNECT_MS);
            connection.connect();
            return connection;
        } catch (IOException away) {
            connection.close();
            throw away;
        }
    }

    private static Response send(Connection connection, byte[] body) {
        try {
            return connection.endPost(body);
        } catch (IOException fault) {
            throw unknown("Klamm at " + connection + " did not answer", fault);
        }
    }

    private static Refusal refusal(Response answer, URI url) {
        try {
            return Refusal.of(answer);
        } catch (IOException fault) {
            throw unknown("Klamm at " + url + " did not answer", fault);
        }
    }

    private static JsonNode read(Response answer, URI url) {
        int most = (int) Math.min(MOST_OF_ANSWER, Runtime.getRuntime().maxMemory() / SHARE_OF_HEAP);
        try {
            return Json.MAPPER.readTree(answer.bytes(most));
        } catch (IOException fault) {
            throw unknown("the answer of " + url + " can't be read", fault);
        }
    }

    private static ApiException unknown(String what, IOException fault) {
        return new BrokerNotAvailableException(
            "nobody knows whether the ACLs were changed: " + what + ": " + fault);
    }

    private ApiException exception(Refusal refusal) {
        String why = link.masked("Klamm refused the change: " + refusal.detail());
        return refusal.number() > 0
            ? Errors.forCode((short) refusal.number()).exception(why)
            : new BrokerNotAvailableException(why + " (" + refusal.status() + ")");
    }

    @Override
    public void close() {
        current.close();
    }
}
