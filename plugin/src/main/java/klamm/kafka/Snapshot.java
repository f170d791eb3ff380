package klamm.kafka;

import com.fasterxml.jackson.databind.JsonNode;
import java.math.BigInteger;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;

/** A snapshot of the feed that is being read: its rows so far, and what they must come to. */
final class Snapshot {
    /** Of the heap: what its rows may take beside the state that is held. An ACL takes some 240 bytes and its texts. */
    private static final double SHARE_OF_HEAP = 0.75;
    private static final int ACL_BYTES = 240;

    private final JsonNode header;
    private final Map<String, String> texts = new HashMap<>();
    private final long most = (long) (Runtime.getRuntime().maxMemory() * SHARE_OF_HEAP);
    private long size;
    private Index index = Index.EMPTY;
    private BigInteger digest = BigInteger.ZERO;
    private Map<String, String> configs;
    /** The first that this version does not know; null if there is none. */
    private String unknownField;
    private boolean hasOddHost;

    Snapshot(JsonNode header) {
        this.header = header;
    }

    void takeAcls(JsonNode acls) throws FeedException {
        Index.Editor editor = new Index.Editor(index);
        for (JsonNode each : acls) {
            unknownField = unknownField == null ? FeedRecord.unknownField(each) : unknownField;
            Acl acl = shared(FeedRecord.acl(each));
            hasOddHost |= acl.host().indexOf('/') >= 0 && Cidr.parse(acl.host()) == null;
            if (editor.find(acl) != null) {
                throw new FeedException("a snapshot has an ACL twice");
            }
            editor.put(acl);
            digest = Proof.sum(digest, Proof.ofRow(acl));
            size += ACL_BYTES;
            if (size > most) {
                throw new FeedException("a snapshot takes more than " + most + " bytes, for which there is no memory");
            }
        }
        index = editor.index();
    }

    /** The same ACL, whose texts are the first of their kind: millions of ACLs have few different ones. */
    private Acl shared(Acl acl) {
        return new Acl(
            acl.idHigh(), acl.idLow(), acl.resourceType(), acl.patternType(), acl.operation(), acl.permissionType(),
            shared(acl.resourceName()), shared(acl.principal()), shared(acl.host()), acl.terms());
    }

    private String shared(String text) {
        String known = texts.putIfAbsent(text, text);
        size += known == null ? text.length() : 0;
        return known == null ? text : known;
    }

    void takeConfigs(JsonNode fields) throws FeedException {
        if (configs != null) {
            throw new FeedException("a snapshot has its properties twice");
        }
        configs = new HashMap<>();
        for (Iterator<String> names = fields.fieldNames(); names.hasNext();) {
            String name = names.next();
            String value = FeedRecord.text(fields, name);
            configs.put(name, value);
            digest = Proof.sum(digest, Proof.ofConfig(name, value));
        }
    }

    /** The image, once the event that ends the snapshot has come. */
    Image proved(JsonNode synced, Epochs epochs, long offset, StoreTime time) throws FeedException {
        if (configs == null || FeedRecord.number(header, "acl_count") != index.count()
            || FeedRecord.number(header, "config_count") != configs.size()) {
            throw new FeedException("a snapshot is not whole");
        }
        boolean isStated = false;
        for (JsonNode event : List.of(header, synced)) {
            String stated = FeedRecord.optional(event, "digest");
            isStated |= stated != null;
            if (stated != null && !stated.equals(Proof.hex(digest))) {
                throw new FeedException("the digest of a snapshot is not that of its rows");
            }
        }
        // With a digest all that the ACLs say is covered, and was stored so.
        if (!isStated && unknownField != null) {
            throw new UnknownDataException("an ACL, which no digest covers, has the field `" + unknownField + "`");
        }
        if (!isStated && hasOddHost) {
            throw new FeedException("an ACL, which no digest covers, has a host that no ACL can have");
        }
        byte[] hash = Proof.hash(FeedRecord.text(synced, "hash"));
        if (!Proof.hex(hash).equals(FeedRecord.text(header, "hash"))) {
            throw new FeedException("a snapshot ends as another one than it began");
        }
        return new Image(
            epochs, offset, hash, digest, Map.copyOf(configs), Rules.of(Map.of(), configs), index.compiled(), time);
    }
}
