package klamm.kafka;

import java.io.IOException;

/** The connection that one thread waits for, so that another can end the waiting. */
final class CurrentConnection {
    private Connection current;
    private boolean isClosed;

    /** The connection itself. Raises IOException once this is closed. */
    synchronized Connection set(Connection made) throws IOException {
        if (isClosed) {
            throw new IOException("this node's authorizer is being closed");
        }
        current = made;
        return made;
    }

    synchronized void close() {
        isClosed = true;
        if (current != null) {
            current.close();
        }
    }
}
