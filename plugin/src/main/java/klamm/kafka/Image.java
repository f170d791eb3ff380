package klamm.kafka;

import java.math.BigInteger;
import java.util.Map;

/**
 * The store's state at an offset: what all decisions of a request are made from. Immutable, but for the clock.
 *
 * @param hash of the record at the offset
 * @param digest of the ACLs and properties
 */
record Image(
    String epoch, long offset, byte[] hash, BigInteger digest, Map<String, String> configs, Rules rules, Index index,
    StoreTime time) {

    String token() {
        return epoch + ":" + offset;
    }

    /** The same state, under properties of the broker's own file, which win over the store's. */
    Image under(Map<String, String> own) {
        return new Image(epoch, offset, hash, digest, configs, Rules.of(own, configs), index, time);
    }
}
