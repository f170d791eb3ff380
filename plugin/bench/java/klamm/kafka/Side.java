package klamm.kafka;

import java.lang.reflect.Method;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Authorizer;

/** One of the two authorizers that are compared, with a store's ACLs in memory. */
enum Side {
    KLAMM {
        @Override
        Authorizer of(Iterable<Acl> acls) throws Exception {
            KlammAuthorizer authorizer = new KlammAuthorizer();
            authorizer.configure(Map.of("klamm.urls", "http://127.0.0.1:9", "super.users", "User:broker"));
            java.lang.reflect.Field field = PlainAuthorizer.class.getDeclaredField("replica");
            field.setAccessible(true);
            Method publish = Replica.class.getDeclaredMethod("publish", Image.class);
            publish.setAccessible(true);
            publish.invoke(field.get(authorizer), new Image(
                Epochs.only(new UUID(0, 0)), 0, new byte[0], null, Map.of(), Rules.of(Map.of(), Map.of()),
                index(acls), new StoreTime()));
            return authorizer;
        }
    },
    KAFKA {
        @Override
        Authorizer of(Iterable<Acl> acls) throws Exception {
            StandardAuthorizer authorizer = Peer.of(Map.of("super.users", "User:broker"));
            Map<Uuid, StandardAcl> all = new HashMap<>();
            long id = 0;
            for (Acl acl : acls) {
                // Kafka's log hands out each text anew.
                all.put(new Uuid(1, id++), new StandardAcl(
                    acl.binding().pattern().resourceType(), new String(acl.resourceName()),
                    acl.binding().pattern().patternType(), new String(acl.principal()), new String(acl.host()),
                    acl.binding().entry().operation(), acl.binding().entry().permissionType()));
            }
            authorizer.loadSnapshot(all);
            authorizer.completeInitialLoad();
            return authorizer;
        }
    };

    private static final int PART = 1_000;

    abstract Authorizer of(Iterable<Acl> acls) throws Exception;

    /** As a snapshot of the feed is taken: part by part. */
    private static Index index(Iterable<Acl> acls) {
        Index index = Index.EMPTY;
        Index.Editor editor = new Index.Editor(index);
        int count = 0;
        for (Acl acl : acls) {
            editor.put(acl);
            if (++count % PART == 0) {
                index = editor.index();
                editor = new Index.Editor(index);
            }
        }
        return editor.index().compiled();
    }
}
