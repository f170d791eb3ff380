package klamm.kafka;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.net.SocketTimeoutException;
import java.net.URI;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import klamm.kafka.Following.Action;
import klamm.kafka.Following.Ask;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The thread that follows Klamm's feed, as {@link Following} says, and keeps the replica and its state file up. */
final class Follower implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(Follower.class);
    /** Such a reader is told where epochs begin, so that a position of an older one leads to no snapshot. */
    private static final Map<String, String> HEADERS = Map.of("Klamm-Epochs", "1");
    private static final int BOOKMARK_MS = 500;
    private static final int CONNECT_MS = 3_000;
    private static final int MS_PER_S = 1_000;
    private static final double NANOS_PER_S = 1e9;
    private static final int FIRST_WAIT_MS = 100;
    private static final int LONGEST_WAIT_MS = 5_000;
    private static final int LONGEST_FAULT_WAIT_MS = 20_000;
    private static final double FAULT_PASSES_S = 60;
    private static final int MOST_DOUBLINGS = 8;
    private static final int MOST_SHOWN = 500;
    private static final Duration LONGEST_AGE = Duration.ofDays(10_000);
    private static final int CLOSE_MS = 5_000;

    private final List<URI> urls;
    private final Link link;
    private final StateKeeper keeper;
    private final Replica replica;
    private final Figures figures;
    private final StoreTime time = new StoreTime();
    private final Following following;
    private final Feed feed;
    private final Probes probes;
    private final Thread thread = new Thread(this::run, "klamm-replica");
    private final CountDownLatch closing = new CountDownLatch(1);
    private final CurrentConnection current = new CurrentConnection();
    private String clusterId = "";
    private boolean hasProgress;
    private boolean isFault;
    private int failures;
    private int faults;
    private double faultAt = -FAULT_PASSES_S;

    Follower(List<URI> urls, Link link, StateKeeper keeper, Replica replica, Figures figures) {
        this.urls = urls;
        this.link = link;
        this.keeper = keeper;
        this.replica = replica;
        this.figures = figures;
        this.following = new Following(urls.size(), null);
        this.feed = new Feed(following, time);
        this.probes = new Probes(link);
        this.thread.setDaemon(true);
    }

    /** @param kafkaClusterId of this node */
    void start(String kafkaClusterId) {
        clusterId = kafkaClusterId;
        thread.start();
    }

    private static double now() {
        return System.nanoTime() / NANOS_PER_S;
    }

    private boolean isClosed() {
        return closing.getCount() == 0;
    }

    private void run() {
        guarded(this::load);
        while (!isClosed()) {
            guarded(this::ask);
            rest();
        }
    }

    /** INVARIANT: nothing ends this thread but the end of the authorizer: what fails is counted and tried again. */
    private void guarded(Runnable work) {
        try {
            work.run();
        } catch (Throwable fault) {
            if (isClosed()) {
                return;
            }
            try {
                figures.errors.increment();
                noteFault();
                feed.begin();
                following.failedCheck(now());
                LOG.error("following the feed of Klamm failed, and is tried again", fault);
            } catch (Throwable another) {
                // There may be no memory even for a line of the log; it is tried again all the same.
                isFault = true;
            }
        }
    }

    private void load() {
        StateFile.LoadedState loaded = keeper.load(clusterId, time);
        if (loaded == null) {
            return;
        }
        Image image = loaded.image();
        Duration age = loaded.age() != null && loaded.age().compareTo(LONGEST_AGE) > 0 ? LONGEST_AGE : loaded.age();
        following.resume(
            image.token(), image.epochs(), age == null ? null : Double.valueOf(now() - age.toNanos() / NANOS_PER_S));
        feed.resume(image);
        replica.setAge(age);
        replica.publish(image);
        LOG.info("decisions are made by the state file, at {}", image.token());
    }

    private void ask() {
        Ask ask = following.ask();
        URI url = urls.get(ask.url());
        figures.connections.increment();
        hasProgress = false;
        isFault = false;
        try (Connection connection = current.set(link.to(url, HEADERS))) {
            connection.expireIn(CONNECT_MS);
            connection.connect();
            connection.expireIn((long) (Following.OPENING_S * MS_PER_S));
            long asked = System.nanoTime();
            long askedWall = System.currentTimeMillis();
            Response answer = connection.get(path(ask.after()));
            if (answer.status() != Response.OK) {
                Refusal refusal = Refusal.of(answer);
                following.refused(refusal.code(), now());
                tell(url, refusal.toString());
                return;
            }
            following.opened(now());
            feed.begin();
            read(url, connection, new Lines(answer.body()), new Clock(asked, askedWall));
        } catch (IOException fault) {
            following.broke(now());
            tell(url, fault.toString());
        } catch (FeedException fault) {
            (fault instanceof UnknownDataException ? figures.unknown : figures.refused).increment();
            noteFault();
            tell(url, fault.getMessage());
        } finally {
            failures = hasProgress ? 0 : failures + 1;
        }
    }

    static String path(Token after) {
        String from =
            after == null ? "snapshot=true" : "after=" + URLEncoder.encode(after.toString(), StandardCharsets.UTF_8);
        return "/v1/watch?bookmark_ms=" + BOOKMARK_MS + "&" + from;
    }

    /** An outage of an hour takes a dozen lines. */
    private void tell(URI url, String why) {
        if (!isClosed() && Integer.bitCount(failures + 1) == 1) {
            String plain = why.substring(0, Math.min(MOST_SHOWN, why.length())).replaceAll("\\p{C}", " ");
            LOG.warn("the feed of Klamm at {} can't be followed: {}", url, link.masked(plain));
        }
    }

    private void noteFault() {
        double now = now();
        isFault = true;
        faults = now - faultAt < FAULT_PASSES_S ? faults + 1 : 0;
        faultAt = now;
    }

    /** The store's time by one stream: when it was asked for, by the clocks of this machine. */
    private final class Clock {
        private final long asked;
        private final long askedWall;
        private boolean hasAnswered;

        Clock(long asked, long askedWall) {
            this.asked = asked;
            this.askedWall = askedWall;
        }

        void take(JsonNode event) throws FeedException {
            Instant storeTime = FeedRecord.instant(event, "store_time");
            if (storeTime != null && !hasAnswered) {
                time.answered(storeTime, asked, askedWall);
                hasAnswered = true;
            } else if (storeTime != null) {
                time.heard(storeTime);
            }
        }
    }

    /** Reads until the stream is to be left, and has told `following` why. */
    private void read(URI url, Connection connection, Lines lines, Clock clock) throws IOException, FeedException {
        while (!isClosed()) {
            // A moment later, so that the check finds the time over.
            connection.expireIn((long) (following.leftS(now()) * MS_PER_S) + 2);
            Lines.Line line = next(lines);
            if (line == null) {
                return;
            }
            if (line.length() > 0 && !take(line, clock)) {
                return;
            }
            probes.answers().forEach(each -> following.probed(each.url(), each.code(), each.ageS(), each.at()));
            Action action = following.check(now());
            if (action == Action.LEAVE) {
                LOG.warn("the feed of Klamm at {} is left for {}: its state is {} s old, or nothing that counts came",
                    url, urls.get(following.ask().url()), following.ageS(now()));
                return;
            }
            if (action == Action.PROBE) {
                probes.ask(following.probeUrl(), urls.get(following.probeUrl()), following.held());
            }
        }
    }

    /** Null if there is no more to read; then `following` has been told. */
    private Lines.Line next(Lines lines) throws IOException, FeedException {
        try {
            Lines.Line line = lines.next();
            if (line == null) {
                throw new IOException("the stream ended");
            }
            return line;
        } catch (FeedException tooLong) {
            following.failedCheck(now());
            throw tooLong;
        } catch (SocketTimeoutException late) {
            if (following.check(now()) == Action.LEAVE) {
                LOG.warn("the feed of Klamm is left: {}", late.getMessage());
                return null;
            }
            throw late;
        }
    }

    /** False if the stream is to be left; `following` knows what to ask. */
    private boolean take(Lines.Line line, Clock clock) throws IOException, FeedException {
        JsonNode event = parse(line, clock);
        double now = now();
        switch (feed.take(event, line.length(), now)) {
            case PART -> keeper.addToSnapshot(line, event.path("type").asText().equals("snapshot"));
            // First the image: a slow disk holds no decision back.
            case IMAGE -> {
                figures.snapshots.increment();
                publish();
                keeper.endSnapshot(line);
            }
            case CHANGE -> {
                publish();
                keeper.append(line);
            }
            case BOOKMARK -> {
                double ageS = Math.min(following.ageS(now), LONGEST_AGE.toSeconds());
                replica.setAge(Duration.ofMillis((long) (ageS * MS_PER_S)));
                publish();
                keeper.confirm((long) (ageS * MS_PER_S));
                return goesOn(now);
            }
            case END -> throw new IOException("it ended the stream: " + event.path("reason").asText());
            default -> { }
        }
        return true;
    }

    private JsonNode parse(Lines.Line line, Clock clock) throws FeedException {
        try {
            JsonNode event = Json.object(line);
            clock.take(event);
            return event;
        } catch (FeedException fault) {
            following.failedCheck(now());
            throw fault;
        }
    }

    private void publish() {
        hasProgress = true;
        replica.publish(feed.image());
    }

    private boolean goesOn(double now) {
        if (keeper.needsSnapshot()) {
            following.failedCheck(now);
            return false;
        }
        // The first bookmark of another request tells the store's time anew.
        return !time.isDoubtful();
    }

    private void rest() {
        int doublings = Math.min(failures / urls.size(), MOST_DOUBLINGS);
        long most = Math.min(LONGEST_WAIT_MS, (long) FIRST_WAIT_MS << doublings);
        if (isFault) {
            long afterFaults = (long) FIRST_WAIT_MS << Math.min(faults, MOST_DOUBLINGS);
            most = Math.max(most, Math.min(LONGEST_FAULT_WAIT_MS, afterFaults));
        }
        try {
            closing.await(most / 2 + ThreadLocalRandom.current().nextLong(most / 2 + 1), TimeUnit.MILLISECONDS);
        } catch (InterruptedException notByUs) {
            LOG.debug("the rest was interrupted");
        }
    }

    /** Ends the thread by closing what it waits for; an interrupt would close the file that it writes. */
    @Override
    public void close() {
        closing.countDown();
        current.close();
        probes.close();
        keeper.close();
        try {
            thread.join(CLOSE_MS);
        } catch (InterruptedException asked) {
            Thread.currentThread().interrupt();
        }
    }
}
