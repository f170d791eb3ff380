package klamm.kafka;

import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** Completes futures on a thread of its own: what Kafka does then must hold up neither the feed nor changes. */
final class Callbacks implements AutoCloseable {
    private static final int IDLE_S = 10;
    private static final int CLOSE_MS = 1_000;

    private final ThreadPoolExecutor thread = new ThreadPoolExecutor(
        1, 1, IDLE_S, TimeUnit.SECONDS, new LinkedBlockingQueue<>(), Threads.daemons("klamm-callbacks"),
        // Once this is closed, the thread that closes the authorizer completes what is left.
        (task, closed) -> task.run());

    Callbacks() {
        thread.allowCoreThreadTimeOut(true);
    }

    void run(Runnable completion) {
        thread.execute(completion);
    }

    /** Gives what is under way a moment to end. */
    @Override
    public void close() {
        thread.shutdown();
        try {
            thread.awaitTermination(CLOSE_MS, TimeUnit.MILLISECONDS);
        } catch (InterruptedException asked) {
            Thread.currentThread().interrupt();
        }
    }
}
