package klamm.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.URI;
import java.util.AbstractList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

final class FollowerTest {
    private static final int PATIENCE_S = 60;
    private static final int ERRORS = 3;
    private static final int ASKED = ERRORS + 2;
    private static final String NOBODY = "http://127.0.0.1:9";

    /** URLs, of which the first looks end in an Error, as any line of the follower may. */
    private static final class FailingUrls extends AbstractList<URI> {
        private final CountDownLatch looks = new CountDownLatch(ASKED);

        @Override
        public URI get(int index) {
            looks.countDown();
            if (looks.getCount() >= ASKED - ERRORS) {
                throw new OutOfMemoryError("as a test");
            }
            return URI.create(NOBODY);
        }

        @Override
        public int size() {
            return 1;
        }
    }

    @Test
    void anErrorIsCountedAndEndsNothing() throws Exception {
        FailingUrls urls = new FailingUrls();
        Figures figures = new Figures();
        try (Timer timer = new Timer(); Callbacks callbacks = new Callbacks()) {
            Link link = new Link(Settings.of(Map.of("klamm.urls", List.of(NOBODY))), timer);
            Replica replica = new Replica(Map.of(), callbacks);
            try (Follower follower = new Follower(urls, link, new StateKeeper(null), replica, figures)) {
                follower.start("cluster");
                assertTrue(urls.looks.await(PATIENCE_S, TimeUnit.SECONDS), "it asks again");
            }
        }
        assertEquals(ERRORS, figures.errors.sum());
    }
}
