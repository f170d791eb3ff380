// What an old client makes of a newer service's answers: main URL
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	klamm "klamm.example/clients/go"
)

func check(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

func main() {
	configuration := klamm.NewConfiguration()
	configuration.Servers = klamm.ServerConfigurations{{URL: os.Args[1]}}
	client := klamm.NewAPIClient(configuration)
	ctx := context.Background()
	asker := *klamm.NewAuthorizableRequestContext("User:alice", "10.1.2.3")
	action := *klamm.NewAction(klamm.ACLOPERATION_READ, klamm.RESOURCETYPE_TOPIC, "orders")

	question := klamm.NewAuthorizeRequest(asker, []klamm.Action{action, action})
	decisions, _, err := client.DecisionsAPI.Authorize(ctx).AuthorizeRequest(*question).Execute()
	check(err)
	allowed := []string{}
	for _, result := range decisions.Results {
		allowed = append(allowed, fmt.Sprint(result == klamm.AUTHORIZATIONRESULT_ALLOWED))
	}
	fmt.Println("allowed:", strings.Join(allowed, " "))

	anywhere := klamm.NewAuthorizeByResourceTypeRequest(asker, klamm.ACLOPERATION_READ, klamm.RESOURCETYPE_TOPIC)
	byType, _, err := client.DecisionsAPI.AuthorizeByResourceType(ctx).AuthorizeByResourceTypeRequest(*anywhere).Execute()
	check(err)
	fmt.Println("allowed anywhere:", byType.Result == klamm.AUTHORIZATIONRESULT_ALLOWED)

	topic := *klamm.NewResourceReference(klamm.RESOURCETYPE_TOPIC, "orders")
	resources := klamm.NewAuthorizedOperationsRequest(asker, []klamm.ResourceReference{topic})
	told, _, err := client.DecisionsAPI.AuthorizedOperations(ctx).AuthorizedOperationsRequest(*resources).Execute()
	check(err)
	fmt.Println("operations:", told.Results[0].AuthorizedOperations, strings.Join(told.Results[0].Operations, " "))

	puzzle := klamm.NewExplainRequest(asker, []klamm.Action{action})
	explained, _, err := client.DecisionsAPI.Explain(ctx).ExplainRequest(*puzzle).Execute()
	check(err)
	why := explained.Results[0]
	miss := why.NearMisses[0]
	fmt.Println("explained:", why.Rule, miss.Missed[0], miss.Acl.Operation, why.SmallestAcl.Get() == nil)

	wanted := klamm.NewAclsRequest(asker, *klamm.NewAclBindingFilter())
	listed, _, err := client.AclsAPI.Acls(ctx).AclsRequest(*wanted).Execute()
	check(err)
	acl := listed.Acls[0]
	fmt.Println("acl:", acl.ResourceType, acl.PatternType, acl.Operation, acl.PermissionType)

	none := klamm.NewCreateAclsRequest(asker, []klamm.AclBinding{})
	_, _, err = client.AclsAPI.CreateAcls(ctx).CreateAclsRequest(*none).Execute()
	var refusal *klamm.GenericOpenAPIError
	if !errors.As(err, &refusal) {
		check(fmt.Errorf("no refusal, but %v", err))
	}
	problem, ok := refusal.Model().(klamm.Problem)
	if !ok {
		check(fmt.Errorf("no problem, but %T: %w", refusal.Model(), err))
	}
	fmt.Println("problem:", problem.Code, problem.Retriable)
}
