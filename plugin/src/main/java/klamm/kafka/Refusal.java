package klamm.kafka;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.charset.StandardCharsets;

/**
 * A refusal of a request by Klamm (RFC 9457), or by something in between.
 *
 * @param code null: it is none of Klamm's
 * @param number Kafka's error code; -1: it has none
 */
record Refusal(int status, String code, int number, String detail) {
    private static final int MOST_BYTES = 64 << 10;
    private static final int MOST_SHOWN = 300;

    static Refusal of(Response answer) throws IOException {
        byte[] body = answer.bytes(MOST_BYTES);
        try {
            JsonNode problem = Json.MAPPER.readTree(body);
            if (problem != null && problem.path("code").isTextual()) {
                return new Refusal(
                    answer.status(), problem.path("code").asText(), problem.path("error_code").asInt(-1),
                    shown(problem.path("detail").asText()));
            }
        } catch (IOException notJson) {
            // It is not Klamm's then.
        }
        return new Refusal(answer.status(), null, -1, shown(new String(body, StandardCharsets.UTF_8)));
    }

    private static String shown(String text) {
        String plain = text.substring(0, Math.min(MOST_SHOWN, text.length())).replaceAll("\\p{C}", " ");
        return text.length() > MOST_SHOWN ? plain + "..." : plain;
    }

    @Override
    public String toString() {
        return status + " " + (code == null ? "" : code + " ") + detail;
    }
}
