package klamm.kafka;

import java.io.IOException;
import java.time.Duration;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps the state file up with the feed. Decisions do not depend on it: a disk that fails costs the file and nothing
 * else. INVARIANT: a file that has missed a change does not come back.
 */
final class StateKeeper implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(StateKeeper.class);
    private static final long AGAIN_NANOS = Duration.ofMinutes(1).toNanos();

    /** Null: nothing is kept. */
    private final StateFile file;
    /** Whether the file holds the image, but for the changes that are still to be told. */
    private boolean isCurrent;
    private Long lostAt;
    private boolean isWritingSnapshot;
    private volatile boolean isClosed;

    private interface Work {
        void run() throws IOException;
    }

    /** @param file null: nothing is kept */
    StateKeeper(StateFile file) {
        this.file = file;
    }

    /** The state of the file; null if there is none that can be used. */
    StateFile.LoadedState load(String clusterId, StoreTime time) {
        if (file == null) {
            return null;
        }
        file.of(clusterId);
        try {
            StateFile.LoadedState loaded = file.load(time);
            isCurrent = loaded != null;
            return loaded;
        } catch (IOException | FeedException | RuntimeException fault) {
            if (!isClosed) {
                LOG.error("the state file is not used, and is fetched anew from Klamm: {}", fault.toString());
                keep(file::setAside);
            }
            return null;
        }
    }

    /** A part of a snapshot. */
    void addToSnapshot(Lines.Line line, boolean isFirst) {
        if (file == null) {
            return;
        }
        keep(() -> {
            if (isFirst) {
                isWritingSnapshot = false;
                file.begin();
                isWritingSnapshot = true;
            }
            if (isWritingSnapshot) {
                file.part(line);
            }
        });
    }

    /** The end of a snapshot, whose image is in use. */
    void endSnapshot(Lines.Line line) {
        if (file == null) {
            return;
        }
        // Until it is on the disk the file is of a state that is no more.
        isCurrent = false;
        keep(() -> {
            if (isWritingSnapshot) {
                isWritingSnapshot = false;
                file.part(line);
                file.commit();
                isCurrent = true;
                lostAt = null;
            }
        });
    }

    void append(Lines.Line line) {
        if (file != null && isCurrent) {
            keep(() -> file.append(line));
        }
    }

    /** The upstream has said how old the state is. */
    void confirm(long ageMs) {
        if (file != null && isCurrent) {
            keep(() -> file.confirm(ageMs));
        }
    }

    /** Whether a snapshot is wanted for the file's sake. */
    boolean needsSnapshot() {
        if (file == null || isClosed) {
            return false;
        }
        if (lostAt != null) {
            return System.nanoTime() - lostAt > AGAIN_NANOS;
        }
        boolean[] isLong = {false};
        keep(() -> isLong[0] = file.isLong());
        return isLong[0];
    }

    private void keep(Work work) {
        boolean isDone = false;
        try {
            work.run();
            isDone = true;
        } catch (IOException fault) {
            if (!isClosed) {
                LOG.error("the state file can't be kept, and is given up for now: {}", fault.toString());
            }
        } finally {
            if (!isDone && !isClosed) {
                lose();
            }
        }
    }

    private void lose() {
        isCurrent = false;
        isWritingSnapshot = false;
        lostAt = System.nanoTime();
        try {
            file.discard();
        } catch (IOException fault) {
            if (!isClosed) {
                LOG.error("remove the state file before the broker starts again; it could not be removed: {}",
                    fault.toString());
            }
        }
    }

    @Override
    public void close() {
        isClosed = true;
        if (file == null) {
            return;
        }
        try {
            file.close();
        } catch (IOException fault) {
            LOG.warn("the state file did not close: {}", fault.toString());
        }
    }
}
