package auth

import (
	"github.com/dulymq/duly"
)

// Need is what a route asks of its caller. The zero Need is no declaration,
// and nobody is let through it.
type Need uint8

// The needs.
const (
	Undeclared Need = iota
	// Open routes ask for nothing: health, and what describes the API.
	Open
	// Produce and Consume ask for that right in the namespace.
	Produce
	Consume
	// Either asks for one of the two, Both for both.
	Either
	Both
	// Admin asks for the right admin in the namespace.
	Admin
	// Operator asks for the right admin in all namespaces.
	Operator
)

var needNames = [...]string{"undeclared", "none", "produce", "consume", "consume or produce", "consume and produce", "admin", "admin for *"}

// String names the right for people.
func (n Need) String() string { return needNames[min(int(n), len(needNames)-1)] }

// rights are those of which the caller must have one, but for Both.
func (n Need) rights() duly.Right {
	switch n {
	case Produce:
		return duly.RightProduce
	case Consume:
		return duly.RightConsume
	case Either, Both:
		return duly.RightProduce | duly.RightConsume
	case Admin, Operator:
		return duly.RightAdmin
	}
	return 0
}

// Allows tells whether a token may do it in a namespace.
func (n Need) Allows(t *duly.Token, namespace string) bool {
	if n == Undeclared || n == Operator && t.Namespace != duly.AllNamespaces {
		return false
	}
	if t.Namespace != duly.AllNamespaces && t.Namespace != namespace {
		return false
	}
	if n == Both {
		return t.Rights.Includes(duly.RightProduce) && t.Rights.Includes(duly.RightConsume)
	}
	return t.Rights.Includes(n.rights())
}

// Refusal is the error of a caller without the right.
func (n Need) Refusal() error {
	return duly.Errorf(duly.CodeForbidden, "this needs a token with the right %s, for this namespace", n)
}
