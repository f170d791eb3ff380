package klamm.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

final class ResponseTest {
    private static Response read(String text) throws IOException {
        return Response.read(new ByteArrayInputStream(text.getBytes(StandardCharsets.ISO_8859_1)));
    }

    private static String body(String text) throws IOException {
        return new String(read(text).bytes(1_000), StandardCharsets.ISO_8859_1);
    }

    @Test
    void bodiesEndWhereTheHeadSays() throws IOException {
        assertEquals("abc", body("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef"));
        assertEquals("abcdef", body(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n3\r\ndef\r\n0\r\nA: b\r\n\r\nmore"));
        assertEquals("abc", body("HTTP/1.0 200\r\n\r\nabc"));
        assertEquals("", body("HTTP/1.1 204 No Content\r\n\r\nabc"));
    }

    @Test
    void aConnectionIsKeptWhereBothMayGoOn() throws IOException {
        assertEquals(true, read("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").isReusable());
        assertEquals(false, read("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").isReusable());
        assertEquals(false, read("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n").isReusable());
        assertEquals(false, read("HTTP/1.1 200 OK\r\n\r\n").isReusable());
    }

    @Test
    void informationBeforeTheAnswerIsLeftOut() throws IOException {
        String early = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n";
        assertEquals(409, read(early + "HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n").status());
        assertThrows(IOException.class, () -> read(early.repeat(1_000)));
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "", "HTTP/1.1", "SSH-2.0-x\r\n\r\n", "HTTP/1.1 2000 OK\r\n\r\n", "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-3\r\nabc\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nabc\r\n0\r\n\r\n"
    })
    void whatIsNoAnswerIsAnError(String text) {
        assertThrows(IOException.class, () -> body(text));
    }

    @Test
    void aHeadWithoutEndIsAnError() {
        assertThrows(IOException.class, () -> read("HTTP/1.1 200 OK\r\nA: " + "x".repeat(100_000)));
    }
}
