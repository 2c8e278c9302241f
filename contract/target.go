package contract

import (
	"context"
	"strings"

	"github.com/dulymq/duly"
)

// Targeter stores the targets and secrets that servers need to send the jobs of push queues. It is
// implemented by engines that own their storage. A [Watcher] also reports every change of a target,
// of the list of push queues, and of their configurations.
type Targeter interface {
	// PutTarget stores a target if the stored one has the version of t (0 means that none is
	// stored), and raises the version by one. Otherwise it returns [duly.ErrConflict]. If the call
	// is repeated after a lost answer, it may conflict with its first try. For a new target in a
	// namespace that has [MaxTargets] it returns [duly.ErrFull].
	PutTarget(ctx context.Context, t Target) error
	// FindTarget returns a target by its name. It returns [duly.ErrNotFound] if there is none.
	FindTarget(ctx context.Context, namespace, name string) (Target, error)
	// Targets lists the targets of a namespace by name, except the one without a name.
	Targets(ctx context.Context, namespace string, p duly.PageParams) (TargetPage, error)
	// DeleteTarget deletes a target. It returns [duly.ErrNotFound] if there is none.
	DeleteTarget(ctx context.Context, namespace, name string) error
	// PushQueues lists the push queues of all namespaces, by namespace and name. It may list
	// a queue that is just being created, destroyed or changed to another delivery.
	PushQueues(ctx context.Context, p duly.PageParams) (QueuePage, error)
}

// Target is a registered destination of HTTP push, as an engine stores it.
type Target struct {
	Namespace string
	// Name is empty for the target that has the secret of the namespace.
	Name string
	// Version counts the changes, from 1.
	Version int64
	// Settings have at most [MaxTargetSettings] bytes. They belong to the server, which encrypts
	// the secrets in them. Engines do not read them.
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
	// MaxTargetSettings is the maximum size of a target's settings as they are stored, in bytes.
	MaxTargetSettings = 256 << 10
)

// Validate returns [duly.ErrInvalid] with every bad field.
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

// ValidateTarget returns [duly.ErrInvalid] unless the names are valid for a namespace and for
// a target: 1–255 of A–Z a–z 0–9 . _ - with a letter, a digit, "-" or "_" at the beginning.
// The name of the target may be empty, as in [Target].
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

// TargetPrefix begins a destination that names a registered target.
const TargetPrefix = "target:"

// ParseDestination splits a destination: it returns the name of a registered target,
// or the URL. Both are empty for [duly.NoDestination] and for no destination.
func ParseDestination(text string) (target, url string) {
	if name, ok := strings.CutPrefix(text, TargetPrefix); ok {
		return name, ""
	}
	if text == duly.NoDestination {
		return "", ""
	}
	return "", text
}
