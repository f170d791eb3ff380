package klamm.kafka;

import java.util.concurrent.ThreadFactory;

/** Makes the threads of an executor, one at a time, by a name and so that they keep no JVM alive. */
final class Daemons implements ThreadFactory {
    private final String name;
    private volatile Thread newest;

    Daemons(String name) {
        this.name = name;
    }

    @Override
    public Thread newThread(Runnable task) {
        Thread made = new Thread(task, name);
        made.setDaemon(true);
        newest = made;
        return made;
    }

    /** Wait for the end of the thread itself: an executor says that it has ended a moment before. */
    void join(long withinMs) {
        Thread last = newest;
        try {
            if (last != null && last != Thread.currentThread()) {
                last.join(withinMs);
            }
        } catch (InterruptedException asked) {
            Thread.currentThread().interrupt();
        }
    }
}
