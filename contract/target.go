package contract

import (
	"context"
	"strings"

	"github.com/dulymq/duly"
)

// Targeter is implemented by engines that own their storage: what servers need to send
// the jobs of push queues. A [Watcher] also reports every change of a target, and every
// change of the list of push queues and of their configurations.
type Targeter interface {
	// PutTarget stores a target if the stored one has the version of t (0: there is
	// none), and raises the version by one; else [duly.ErrConflict]. A repeat after a lost
	// answer is a conflict with itself. [duly.ErrFull] for a new one in a namespace that has
	// [MaxTargets].
	PutTarget(ctx context.Context, t Target) error
	// FindTarget finds a target by its name; [duly.ErrNotFound].
	FindTarget(ctx context.Context, namespace, name string) (Target, error)
	// Targets lists the targets of a namespace by name, without the nameless one.
	Targets(ctx context.Context, namespace string, p duly.PageParams) (TargetPage, error)
	// DeleteTarget removes a target; [duly.ErrNotFound].
	DeleteTarget(ctx context.Context, namespace, name string) error
	// PushQueues lists the push queues of all namespaces, by namespace and name. It may
	// list a queue that is being made, was destroyed or changed its delivery just now.
	PushQueues(ctx context.Context, p duly.PageParams) (QueuePage, error)
}

// Target is a registered destination of HTTP push, as an engine stores it.
type Target struct {
	Namespace string
	// Name is empty for what belongs to the namespace itself: its secret.
	Name string
	// Version counts the changes, from 1.
	Version int64
	// Settings are at most [MaxTargetSettings]. They belong to the server, which seals
	// what is secret in them. No engine reads them.
	Settings []byte
}

// TargetPage is a page of targets.
type TargetPage struct {
	Targets []Target
	Next    string
}

// QueuePage is a page of queues.
type QueuePage struct {
	Queues []duly.QueueRef
	Next   string
}

// Bounds of targets.
const (
	// MaxTargets is the number of targets of a namespace.
	MaxTargets = 10_000
	// MaxTargetSettings is the size of the settings of a target as they are stored.
	MaxTargetSettings = 256 << 10
)

// Validate reports [duly.ErrInvalid] with every bad field.
func (t *Target) Validate() error {
	var f BadFields
	checkTarget(&f, t.Namespace, t.Name)
	if t.Version < 0 {
		f.Add("version", "is %d, must be at least 0", t.Version)
	}
	if len(t.Settings) > MaxTargetSettings {
		f.size("settings", "have %d bytes, may have at most %d", len(t.Settings), MaxTargetSettings)
	}
	return f.Err()
}

// ValidateTarget reports [duly.ErrInvalid] unless the names are of a namespace and of a
// target: 1–255 of A–Z a–z 0–9 . _ - that begin with a letter, a digit, "-" or "_". The
// name of the target may be empty, as in [Target].
func ValidateTarget(namespace, name string) error {
	var f BadFields
	checkTarget(&f, namespace, name)
	return f.Err()
}

func checkTarget(f *BadFields, namespace, name string) {
	checkNamespace(f, namespace)
	if name != "" {
		checkTargetName(f, "name", name)
	}
}

// NoTargetNamed is the error for a target that is not there.
func NoTargetNamed(namespace, name string) error {
	if name == "" {
		return Errorf(duly.CodeNotFound, "namespace %s has no secret", NamespaceOr(namespace))
	}
	return Errorf(duly.CodeNotFound, "namespace %s has no target %s", NamespaceOr(namespace), Quoted(name))
}

// TargetConflict is the error of a PutTarget that comes too late.
func TargetConflict(namespace, name string) error {
	return Errorf(duly.CodeConflict, "target %s of namespace %s has changed meanwhile; look again", Quoted(name), NamespaceOr(namespace))
}

// TargetsFull is the error for a namespace that can have no more targets.
func TargetsFull(namespace string) error {
	return Errorf(duly.CodeFull, "namespace %s has %d targets, which is the bound; delete some", NamespaceOr(namespace), MaxTargets)
}

// ValidateQueuePage is Validate for a page of queues, whose cursor is the last queue of the
// page before: NAMESPACE/NAME.
func ValidateQueuePage(p *duly.PageParams) (after duly.QueueRef, err error) {
	if err := ValidatePage(p); err != nil || p.Cursor == "" {
		return after, err
	}
	namespace, name, _ := strings.Cut(p.Cursor, "/")
	after = duly.QueueRef{Namespace: namespace, Name: name}
	if namespace == "" || ValidateQueue(after) != nil {
		return after, BadCursor()
	}
	return after, nil
}
