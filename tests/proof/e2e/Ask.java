// Java's own HTTP client, as it is out of the box: asks the questions of a file over and over, and looks at each answer.
// A line of the file is, with tabs between: URL, how the answer begins, body.

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;

class Ask {
    public static void main(String[] arguments) throws Exception {
        var client = HttpClient.newHttpClient();
        var lines = Files.readAllLines(Path.of(arguments[0]));
        int requests = Integer.parseInt(arguments[1]);
        for (int n = 0; n < requests; n++) {
            var asked = lines.get(n % lines.size()).split("\t");
            var request = HttpRequest.newBuilder(URI.create(asked[0]))
                .header("Content-Type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofString(asked[2])).build();
            var answer = client.send(request, HttpResponse.BodyHandlers.ofString());
            // OVERLOADED is right while other processes have the service's core.
            for (int again = 0; answer.statusCode() == 429 && again < 3_000; again++) {
                Thread.sleep(20);
                answer = client.send(request, HttpResponse.BodyHandlers.ofString());
            }
            if (answer.statusCode() != 200 || !answer.body().startsWith(asked[1]))
                throw new IllegalStateException(n + ": " + answer.statusCode() + " " + answer.body() + " to " + asked[2]);
        }
        System.out.println(requests + " right answers");
    }
}
