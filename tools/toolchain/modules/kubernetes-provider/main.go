// Command pulumi-resource-kubernetes is the Pulumi kubernetes provider.
//
// Upstream's own main embeds a schema that is generated at release time and is not in its repository.
// The engine needs the schema only for GetSchema and for imports, so an empty one serves up, preview,
// refresh and destroy.
package main

import (
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version"
)

func main() {
	schema := []byte(`{"name":"kubernetes","version":"` + version.Version + `"}`)
	provider.Serve("kubernetes", version.Version, schema, []byte("{}"))
}
