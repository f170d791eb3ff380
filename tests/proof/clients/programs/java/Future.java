import io.klamm.client.ApiClient;
import io.klamm.client.ApiException;
import io.klamm.client.api.AclsApi;
import io.klamm.client.api.DecisionsApi;
import io.klamm.client.model.*;
import java.util.List;
import java.util.stream.Collectors;

/** What an old client makes of a newer service's answers: Future URL. */
class Future {
    public static void main(String[] arguments) throws Exception {
        ApiClient client = new ApiClient();
        client.updateBaseUri(arguments[0]);
        DecisionsApi decisions = new DecisionsApi(client);
        AclsApi acls = new AclsApi(client);
        AuthorizableRequestContext asker =
            new AuthorizableRequestContext().principal("User:alice").clientAddress("10.1.2.3");
        Action action =
            new Action().operation(AclOperation.READ).resourceType(ResourceType.TOPIC).resourceName("orders");

        AuthorizeResponse answer =
            decisions.authorize(new AuthorizeRequest().context(asker).actions(List.of(action, action)));
        System.out.println("allowed: " + answer.getResults().stream()
            .map(result -> String.valueOf(result == AuthorizationResult.ALLOWED)).collect(Collectors.joining(" ")));

        AuthorizeByResourceTypeResponse byType = decisions.authorizeByResourceType(
            new AuthorizeByResourceTypeRequest()
                .context(asker).operation(AclOperation.READ).resourceType(ResourceType.TOPIC));
        System.out.println("allowed anywhere: " + (byType.getResult() == AuthorizationResult.ALLOWED));

        ResourceReference topic = new ResourceReference().resourceType(ResourceType.TOPIC).resourceName("orders");
        AuthorizedOperationsResult told = decisions.authorizedOperations(
            new AuthorizedOperationsRequest().context(asker).resources(List.of(topic))).getResults().get(0);
        System.out.println(
            "operations: " + told.getAuthorizedOperations() + " " + String.join(" ", told.getOperations()));

        Explanation why =
            decisions.explain(new ExplainRequest().context(asker).actions(List.of(action))).getResults().get(0);
        NearMiss miss = why.getNearMisses().get(0);
        System.out.println("explained: " + why.getRule() + " " + miss.getMissed().get(0) + " "
            + miss.getAcl().getOperation() + " " + (why.getSmallestAcl() == null));

        Acl acl = acls.acls(new AclsRequest().context(asker).filter(new AclBindingFilter())).getAcls().get(0);
        System.out.println("acl: " + acl.getResourceType() + " " + acl.getPatternType() + " "
            + acl.getOperation() + " " + acl.getPermissionType());

        try {
            acls.createAcls(new CreateAclsRequest().context(asker).bindings(List.of()));
            throw new IllegalStateException("no refusal");
        } catch (ApiException refusal) {
            Problem problem = client.getObjectMapper().readValue(refusal.getResponseBody(), Problem.class);
            System.out.println("problem: " + problem.getCode() + " " + problem.getRetriable());
        }
    }
}
