// Command cacerts prints the root certificates of the container image in the PEM
// format. They are those that the Go team takes from Mozilla.
package main

import (
	"encoding/pem"
	"fmt"
	"os"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

func main() {
	for root := range bundle.Roots() {
		// Mozilla trusts such a root only with a condition, which PEM cannot express.
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(os.Stdout, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			fmt.Fprintln(os.Stderr, "cacerts:", err)
			os.Exit(1)
		}
	}
}
