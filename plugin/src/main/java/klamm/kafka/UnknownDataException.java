package klamm.kafka;

/** The feed has data of a later version: a kind of record, a hash version, a field or a name that this one lacks. */
final class UnknownDataException extends FeedException {
    private static final long serialVersionUID = 1;

    UnknownDataException(String what) {
        super(what + ", which this version of the plugin does not know; upgrade it");
    }
}
