package klamm.kafka;

import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** Does what is short at its time. */
final class Timer implements AutoCloseable {
    private static final int CLOSE_MS = 1_000;

    private final Daemons threads = new Daemons("klamm-timer");
    private final ScheduledThreadPoolExecutor executor = new ScheduledThreadPoolExecutor(1, threads);

    Timer() {
        executor.setRemoveOnCancelPolicy(true);
    }

    ScheduledFuture<?> in(long ms, Runnable task) {
        return executor.schedule(task, ms, TimeUnit.MILLISECONDS);
    }

    void every(long ms, Runnable task) {
        executor.scheduleWithFixedDelay(task, ms, ms, TimeUnit.MILLISECONDS);
    }

    @Override
    public void close() {
        executor.shutdownNow();
        threads.join(CLOSE_MS);
    }
}
