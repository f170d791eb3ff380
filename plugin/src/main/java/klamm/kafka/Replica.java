package klamm.kafka;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeoutException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The store's state in this process, kept up by one thread that follows Klamm's feed. Readers take {@link #image()},
 * which is one volatile read, and never wait.
 */
final class Replica implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(Replica.class);
    private static final int BOOKMARK_MS = 500;
    private static final int READ_MS = 10_000;
    private static final int FIRST_WAIT_MS = 100;
    private static final int LONGEST_WAIT_MS = 5_000;
    private static final int CLOSE_MS = 3 * BOOKMARK_MS;
    private static final int MOST_OF_REFUSAL = 4_096;
    private static final long NANOS_PER_MS = 1_000_000;
    private static final long STATE_AGAIN_NANOS = 60_000 * NANOS_PER_MS;

    private final List<URI> urls;
    private final Link link;
    private final StoreTime time = new StoreTime();
    private final Thread thread;
    private final CompletableFuture<Void> loaded = new CompletableFuture<>();
    private final List<Waiter> waiters = new ArrayList<>();
    private final StateFile state;
    private Feed feed = new Feed(time);
    private boolean needsSnapshot;
    private boolean heardNothing;
    private Long stateLostAt;
    private Image published;
    private Map<String, String> own;
    private volatile Image image;
    private volatile long freshAt;
    private volatile long connections;
    private volatile boolean isClosed;

    private record Waiter(String epoch, long offset, long until, CompletableFuture<Void> future) {}

    /** @param state null: nothing is kept */
    Replica(Settings settings, Link link, StateFile state) {
        this.urls = settings.urls();
        this.own = settings.own();
        this.link = link;
        this.state = state;
        this.thread = new Thread(this::run, "klamm-replica");
        this.thread.setDaemon(true);
    }

    void start() {
        thread.start();
    }

    /** The last proved state; null before the first. */
    Image image() {
        return image;
    }

    /** Done when there is an image. */
    CompletableFuture<Void> loaded() {
        return loaded;
    }

    long ageMs() {
        return image == null ? -1 : (System.nanoTime() - freshAt) / NANOS_PER_MS;
    }

    long connections() {
        return connections;
    }

    /** Other properties of the broker's own file. */
    synchronized void reconfigure(Map<String, String> changed) {
        own = changed;
        if (image != null) {
            image = image.under(own);
        }
    }

    private synchronized void publish(Image next) {
        published = next;
        image = next.under(own);
    }

    /** Done when the image has reached this token; fails if it does not within this time. */
    CompletableFuture<Void> reached(String token, long withinMs) throws FeedException {
        Waiter waiter = new Waiter(
            Feed.epochOf(token), Feed.offsetOf(token), System.nanoTime() + withinMs * NANOS_PER_MS,
            new CompletableFuture<>());
        synchronized (waiters) {
            waiters.add(waiter);
        }
        wake();
        return waiter.future;
    }

    private void wake() {
        List<Waiter> done = new ArrayList<>();
        Image now = image;
        synchronized (waiters) {
            for (Waiter each : waiters) {
                boolean isThere = now != null && now.epoch().equals(each.epoch) && now.offset() >= each.offset;
                if (isThere || isClosed || System.nanoTime() - each.until > 0) {
                    done.add(each);
                }
            }
            waiters.removeAll(done);
        }
        for (Waiter each : done) {
            if (now != null && now.epoch().equals(each.epoch) && now.offset() >= each.offset) {
                each.future.complete(null);
            } else {
                each.future.completeExceptionally(new TimeoutException());
            }
        }
    }

    private void run() {
        try {
            load();
            int failures = 0;
            while (!isClosed) {
                URI url = urls.get((int) (connections % urls.size()));
                heardNothing = true;
                try {
                    connections++;
                    follow(url);
                } catch (IOException | FeedException fault) {
                    if (Integer.bitCount(failures + 1) == 1) {
                        // An outage of an hour takes a dozen lines.
                        LOG.warn("the feed of Klamm at {} broke off: {}", url, fault.getMessage());
                    }
                } catch (RuntimeException fault) {
                    needsSnapshot = true;
                    LOG.error("the feed of Klamm at {} could not be followed", url, fault);
                }
                failures = heardNothing ? failures + 1 : 0;
                pause(failures);
            }
        } finally {
            closeState();
        }
    }

    private void load() {
        if (state == null) {
            return;
        }
        Feed kept = new Feed(time);
        try {
            Instant fresh = state.load(kept);
            if (fresh == null) {
                return;
            }
            freshAt = System.nanoTime() - Math.max(0, Duration.between(fresh, Instant.now()).toNanos());
            feed = kept;
            publish(kept.image());
            loaded.complete(null);
            LOG.info("decisions stand on the state file, at {}", kept.image().token());
        } catch (IOException | FeedException | RuntimeException fault) {
            LOG.error("the state file is not used, and is fetched anew from Klamm: {}", fault.toString());
            keep(state::discard);
        }
    }

    private void follow(URI url) throws IOException, FeedException {
        boolean anew = feed.image() == null || needsSnapshot;
        String from = anew
            ? "snapshot=true" : "after=" + URLEncoder.encode(feed.image().token(), StandardCharsets.UTF_8);
        long asked = System.nanoTime();
        long askedWall = System.currentTimeMillis();
        HttpURLConnection connection = link.open(url, "/v1/watch?bookmark_ms=" + BOOKMARK_MS + "&" + from, READ_MS);
        try {
            int status = connection.getResponseCode();
            if (status != HttpURLConnection.HTTP_OK) {
                needsSnapshot |= status == 409 || status == 410;
                throw new IOException(status + " " + shown(Link.body(connection, MOST_OF_REFUSAL)));
            }
            feed.begin();
            needsSnapshot = anew;
            read(connection.getInputStream(), asked, askedWall);
        } catch (FeedException fault) {
            needsSnapshot = true;
            throw fault;
        } finally {
            connection.disconnect();
        }
    }

    private static String shown(byte[] body) {
        return new String(body, StandardCharsets.UTF_8).replaceAll("\\p{Cntrl}", " ");
    }

    private void read(InputStream in, long asked, long askedWall) throws IOException, FeedException {
        Lines lines = new Lines(in);
        boolean hasLooked = false;
        for (byte[] line = lines.next(); line != null && !isClosed; line = lines.next()) {
            if (line.length == 0) {
                continue;
            }
            JsonNode event = Feed.parse(line, line.length);
            Instant storeTime = FeedRecord.instant(event, "store_time");
            if (storeTime != null && !hasLooked) {
                time.answered(storeTime, asked, askedWall);
                hasLooked = true;
            } else if (storeTime != null) {
                time.heard(storeTime);
            }
            if (!take(event, line)) {
                return;
            }
        }
    }

    /** False if it is time to ask anew. */
    private boolean take(JsonNode event, byte[] line) throws IOException, FeedException {
        switch (feed.take(event)) {
            case PART -> keep(() -> part(event, line));
            // First the image: a slow disk holds no decision back.
            case IMAGE -> {
                isCurrent(0);
                loaded.complete(null);
                keep(() -> whole(line));
                needsSnapshot = false;
            }
            case CHANGE -> {
                isCurrent(-1);
                keep(() -> changed(line));
            }
            case BOOKMARK -> {
                isCurrent(Math.max(0, event.path("age_ms").asLong(Long.MAX_VALUE / NANOS_PER_MS / 2)));
                keep(this::fresh);
                return !time.isDoubtful() && !needsSnapshot;
            }
            case END -> {
                LOG.info("Klamm ended the feed: {}", event.path("reason").asText());
                return false;
            }
            default -> { }
        }
        return true;
    }

    /** @param ageMs how old the state was when Klamm said that it is the newest; negative: it has not said so */
    private void isCurrent(long ageMs) {
        heardNothing = false;
        if (ageMs >= 0) {
            freshAt = System.nanoTime() - ageMs * NANOS_PER_MS;
        }
        if (published != feed.image()) {
            publish(feed.image());
        }
        wake();
    }

    /** What is done to the state file. */
    private interface Keeping {
        void run() throws IOException;
    }

    private void part(JsonNode event, byte[] line) throws IOException {
        if (event.path("type").asText().equals("snapshot")) {
            state.begin();
            stateLostAt = null;
        }
        if (stateLostAt == null) {
            state.part(line);
        }
    }

    private void whole(byte[] line) throws IOException {
        if (stateLostAt == null) {
            state.part(line);
            state.commit();
        }
    }

    private void changed(byte[] line) throws IOException {
        if (stateLostAt == null) {
            state.append(line);
        }
    }

    private void fresh() throws IOException {
        if (stateLostAt != null) {
            needsSnapshot |= System.nanoTime() - stateLostAt > STATE_AGAIN_NANOS;
            return;
        }
        state.isFresh();
        needsSnapshot |= state.isLong();
    }

    /** Decisions do not depend on the state file; but a file that has missed a change must not come back. */
    private void keep(Keeping work) {
        if (state == null) {
            return;
        }
        try {
            work.run();
        } catch (IOException fault) {
            LOG.error("the state file can't be kept, and is given up for now: {}", fault.toString());
            stateLostAt = System.nanoTime();
            try {
                state.discard();
            } catch (IOException alsoThat) {
                LOG.error("remove the state file before the broker starts again; it could not be removed: {}",
                    alsoThat.toString());
            }
        }
    }

    private void pause(int failures) {
        wake();
        long most = Math.min(LONGEST_WAIT_MS, (long) FIRST_WAIT_MS << Math.min(failures, 6));
        long until = System.nanoTime() + (most / 2 + ThreadLocalRandom.current().nextLong(most / 2 + 1)) * NANOS_PER_MS;
        while (!isClosed && System.nanoTime() - until < 0) {
            try {
                Thread.sleep(Math.max(1, Math.min(50, (until - System.nanoTime()) / NANOS_PER_MS)));
            } catch (InterruptedException asked) {
                return;
            }
        }
    }

    private void closeState() {
        try {
            if (state != null) {
                state.close();
            }
        } catch (IOException fault) {
            LOG.warn("the state file did not close: {}", fault.toString());
        }
    }

    @Override
    public void close() {
        isClosed = true;
        if (thread.getState() == Thread.State.NEW) {
            closeState();
        } else {
            thread.interrupt();
            try {
                thread.join(CLOSE_MS);
            } catch (InterruptedException asked) {
                Thread.currentThread().interrupt();
            }
        }
        loaded.completeExceptionally(new IllegalStateException("the authorizer is closed"));
        wake();
    }
}
