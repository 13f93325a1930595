// java Orders.java URL KEY… - the JDK's HttpClient, with the loop that everybody writes around it.
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;

public class Orders {
    public static void main(String[] arguments) throws Exception {
        HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        StringBuilder result = new StringBuilder("{");
        for (int i = 1; i < arguments.length; i++) {
            HttpRequest request = HttpRequest.newBuilder(URI.create(arguments[0] + "/orders")).timeout(Duration.ofSeconds(1))
                .header("Idempotency-Key", arguments[i]).header("Content-Type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofString("{\"order\":\"" + arguments[i] + "\"}")).build();
            int status = 0;
            for (int attempt = 0; attempt < 5 && (status == 0 || status >= 400); attempt++) {
                try {
                    status = client.send(request, HttpResponse.BodyHandlers.ofString()).statusCode();
                } catch (java.io.IOException timeoutOrCut) {
                    Thread.sleep(100);
                }
            }
            result.append(i > 1 ? "," : "").append('"').append(arguments[i]).append("\":").append(status);
        }
        System.out.println(result.append('}'));
    }
}
