package klamm.kafka;

import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadFactory;

/** Threads by name, which keep no JVM alive. */
final class Threads {
    private Threads() {}

    /** For what is short; its thread begins with the first task. */
    static ScheduledThreadPoolExecutor timer() {
        ScheduledThreadPoolExecutor timer = new ScheduledThreadPoolExecutor(1, daemons("klamm-timer"));
        timer.setRemoveOnCancelPolicy(true);
        return timer;
    }

    static ThreadFactory daemons(String name) {
        return task -> {
            Thread thread = new Thread(task, name);
            thread.setDaemon(true);
            return thread;
        };
    }
}
