package klamm.kafka;

import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** Completes futures on a thread of its own: what Kafka does then must hold up neither the feed nor changes. */
final class Callbacks implements AutoCloseable {
    private static final int IDLE_S = 10;
    private static final int CLOSE_MS = 1_000;

    private final Daemons threads = new Daemons("klamm-callbacks");
    private final ThreadPoolExecutor executor = new ThreadPoolExecutor(
        1, 1, IDLE_S, TimeUnit.SECONDS, new LinkedBlockingQueue<>(), threads,
        // Once this is closed, the thread that closes the authorizer completes what is left.
        (task, closed) -> task.run());

    Callbacks() {
        executor.allowCoreThreadTimeOut(true);
    }

    void run(Runnable completion) {
        executor.execute(completion);
    }

    /** Gives what is under way a moment to end. */
    @Override
    public void close() {
        executor.shutdown();
        threads.join(CLOSE_MS);
    }
}
