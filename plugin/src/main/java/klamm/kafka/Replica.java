package klamm.kafka;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeoutException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The store's state in this process, which a {@link Follower} keeps up. Readers take {@link #image()}, which is one
 * volatile read, and never wait.
 */
final class Replica {
    private static final Logger LOG = LoggerFactory.getLogger(Replica.class);
    private static final long NANOS_PER_MS = 1_000_000;

    private final Callbacks callbacks;
    private final CompletableFuture<Void> loaded = new CompletableFuture<>();
    private final List<Waiter> waiters = new ArrayList<>();
    private Image published;
    private Map<String, String> own;
    private Set<String> unknownProperties = Set.of();
    private volatile Image image;
    /** By the clock of System.nanoTime; null: nobody has said it yet. */
    private volatile Long equalAt;
    private volatile boolean isClosed;

    private record Waiter(Token token, long until, CompletableFuture<Void> future) {}

    /** @param own properties of the broker's own file */
    Replica(Map<String, String> own, Callbacks callbacks) {
        this.own = own;
        this.callbacks = callbacks;
    }

    /** The last proved state; null before the first. */
    Image image() {
        return image;
    }

    /** Done when there is an image; by the thread of {@link Callbacks}. */
    CompletableFuture<Void> loaded() {
        return loaded;
    }

    /** How long ago the state was last known to be the newest; Long.MAX_VALUE: nobody has said so yet. */
    long ageMs() {
        Long at = equalAt;
        return at == null ? Long.MAX_VALUE : Math.max(0, (System.nanoTime() - at) / NANOS_PER_MS);
    }

    /** @param age null: nobody knows */
    void setAge(Duration age) {
        equalAt = age == null ? null : Long.valueOf(System.nanoTime() - age.toNanos());
    }

    /** Stored properties that this version does not know, so that they have no effect. */
    synchronized int unknownProperties() {
        return unknownProperties.size();
    }

    /** Other properties of the broker's own file. */
    synchronized void reconfigure(Map<String, String> changed) {
        own = changed;
        if (image != null) {
            image = image.under(own);
        }
    }

    /** From now on decisions are made by this. */
    void publish(Image next) {
        synchronized (this) {
            if (next == published) {
                return;
            }
            published = next;
            image = next.under(own);
            Set<String> unknown = Rules.unknown(next.configs());
            if (!unknown.equals(unknownProperties)) {
                unknownProperties = unknown;
                LOG.warn("stored properties that this version does not know have no effect: {}", unknown);
            }
        }
        if (!loaded.isDone()) {
            callbacks.run(() -> loaded.complete(null));
        }
        wake();
    }

    /** Done when the image has all up to this token; fails if it has not within this time. */
    CompletableFuture<Void> reached(Token token, long withinMs) {
        Waiter waiter =
            new Waiter(token, System.nanoTime() + withinMs * NANOS_PER_MS, new CompletableFuture<>());
        synchronized (waiters) {
            waiters.add(waiter);
        }
        wake();
        return waiter.future;
    }

    /** Ends the waiting of those who have what they wait for, or whose time is over. Call this about every second. */
    void wake() {
        List<Waiter> done = new ArrayList<>();
        Image now = image;
        synchronized (waiters) {
            for (Waiter each : waiters) {
                if (isReached(now, each) || isClosed || System.nanoTime() - each.until > 0) {
                    done.add(each);
                }
            }
            waiters.removeAll(done);
        }
        for (Waiter each : done) {
            boolean isReached = isReached(now, each);
            callbacks.run(() -> {
                if (isReached) {
                    each.future.complete(null);
                } else {
                    each.future.completeExceptionally(new TimeoutException());
                }
            });
        }
    }

    private static boolean isReached(Image now, Waiter waiter) {
        return now != null && now.has(waiter.token);
    }

    /** Nobody waits any longer. */
    void close() {
        isClosed = true;
        callbacks.run(() -> loaded.completeExceptionally(new IllegalStateException("the authorizer is closed")));
        wake();
    }
}
