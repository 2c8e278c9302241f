package describe

import (
	"fmt"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/auth"
)

// callers are the columns of the table of rights: each is a token with one right, in the
// namespace of the route or in all.
var callers = []struct {
	name  string
	token contract.Token
}{
	{"`produce`", contract.Token{Namespace: duly.DefaultNamespace, Rights: contract.RightProduce}},
	{"`consume`", contract.Token{Namespace: duly.DefaultNamespace, Rights: contract.RightConsume}},
	{"`admin`", contract.Token{Namespace: duly.DefaultNamespace, Rights: contract.RightAdmin}},
	{"`admin` for `*`", contract.Token{Namespace: contract.AllNamespaces, Rights: contract.RightAdmin}},
}

// Rights returns the table of all routes with the rights that may use them, for
// docs/security.md. The guard decides by the same rights.
func Rights(parts []Part) string {
	var b strings.Builder
	b.WriteString("| route | nobody |")
	for _, c := range callers {
		b.WriteString(" " + c.name + " |")
	}
	b.WriteString(" counts under |\n| --- |" + strings.Repeat(" :---: |", len(callers)+1) + " --- |\n")

	for _, p := range parts {
		for i := range p.Routes {
			r := &p.Routes[i]
			fmt.Fprintf(&b, "| `%s %s` | %s |", r.Method, r.Path, mark(r.Access == auth.Open))
			for _, c := range callers {
				fmt.Fprintf(&b, " %s |", mark(r.Access == auth.Open || r.Access.Allows(&c.token, duly.DefaultNamespace)))
			}
			fmt.Fprintf(&b, " %s |\n", strings.Join(r.LimitedBy.Names(), ", "))
		}
	}
	return b.String()
}

func mark(may bool) string {
	if may {
		return "✓"
	}
	return ""
}
