package auth

import (
	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Access is the right that a route requires. The zero Access declares no right, and a guard refuses
// every caller of such a route.
type Access uint8

// The kinds of access.
const (
	Undeclared Access = iota
	// Open means that a route requires no right. Such routes are health and the description of the
	// API.
	Open
	// Produce and Consume require that right in the namespace.
	Produce
	Consume
	// Either means that a route requires one of two rights. Both means that it requires both.
	Either
	Both
	// Admin requires the right admin in the namespace.
	Admin
	// Operator requires the right admin in all namespaces.
	Operator
)

var accessNames = [...]string{"undeclared", "none", "produce", "consume", "consume or produce",
	"consume and produce", "admin", "admin for *"}

// String returns the name of the right for people.
func (a Access) String() string { return accessNames[min(int(a), len(accessNames)-1)] }

// rights returns the rights for a call. A token needs one of them, or all of them with [Both].
func (a Access) rights() contract.Right {
	switch a {
	case Produce:
		return contract.RightProduce
	case Consume:
		return contract.RightConsume
	case Either, Both:
		return contract.RightProduce | contract.RightConsume
	case Admin, Operator:
		return contract.RightAdmin
	}
	return 0
}

// Allows reports whether a token grants the access in a namespace.
func (a Access) Allows(t *contract.Token, namespace string) bool {
	if a == Undeclared || a == Operator && t.Namespace != contract.AllNamespaces {
		return false
	}
	if t.Namespace != contract.AllNamespaces && t.Namespace != namespace {
		return false
	}
	if a == Both {
		return t.Rights.Includes(contract.RightProduce) && t.Rights.Includes(contract.RightConsume)
	}
	return t.Rights.Includes(a.rights())
}

// Refusal returns the error for a caller without the right.
func (a Access) Refusal() error {
	return contract.Errorf(duly.CodeForbidden, "this needs a token with the right %s, for this namespace", a)
}
