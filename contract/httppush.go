package contract

import (
	"context"
	"time"

	"github.com/dulymq/duly"
)

// Servers and package httpengine exchange the following types for the administration of HTTP push.
// An engine stores a [Target] and does not read these types.

// PushTargets manages the targets of a namespace. A server implements it, and so does the HTTP push of package
// httpengine. No call returns a secret or the value of a header.
type PushTargets interface {
	// Targets returns a page of targets, by name, and the cursor of the next page.
	Targets(ctx context.Context, p duly.PageParams) (targets []PushTarget, next string, err error)
	// Target returns one target. It returns [duly.ErrNotFound] if there is none.
	Target(ctx context.Context, name string) (PushTarget, error)
	// SetTarget creates a target, or replaces its settings.
	SetTarget(ctx context.Context, name string, s PushTargetSettings) error
	// DeleteTarget deletes a target. It returns [duly.ErrNotFound] if there is none.
	DeleteTarget(ctx context.Context, name string) error
	// EnableTarget enables or disables a target. It returns [duly.ErrNotFound] if there is none.
	EnableTarget(ctx context.Context, name string, enabled bool) error
	// RotateSecret gives a target a new secret, or the namespace if name is empty.
	RotateSecret(ctx context.Context, name string, r PushRotation) error
	// TestTarget makes the server send a test request to a target.
	TestTarget(ctx context.Context, name string) (PushTest, error)
	// Hosts returns the hosts to which the server sends the jobs of the namespace, the most recently used one first.
	Hosts(ctx context.Context) ([]PushHost, error)
}

// PushTarget is a target of HTTP push as a server shows it.
type PushTarget struct {
	Name string
	// Settings have no header values and no secret.
	Settings    PushTargetSettings
	HeaderNames []string
	OwnSecret   bool
	// OverlapUntil is the time at which the secret before the newest one ends. It is zero if there
	// is no such secret.
	OverlapUntil time.Time
	Version      int64
	// Host has the state of the gate of the target's host. It is nil if the host was not used.
	Host *PushHost
}

// PushTargetSettings are the settings of a target of HTTP push. Zero is the default.
type PushTargetSettings struct {
	URL, Method        string
	Headers            map[string]string
	Timeout            time.Duration
	Success, Permanent []int
	Concurrency        int
	Rate               duly.Rate
	Sign               []string
	CA                 string
	Disabled           bool
	// Secret becomes the target's own secret: whsec_… or whsk_….
	Secret string
}

// PushHost is the gate of a host that a server sends jobs to.
type PushHost struct {
	Host string
	Open bool
	// Closed is how long the gate stays closed.
	Closed                    time.Duration
	Limit, InFlight, HeldBack int
	Usual                     time.Duration
}

// PushSecret is a secret with its keys for v1a signatures.
type PushSecret struct {
	Secret, PrivateKey, PublicKey string
}

// PushRotation asks for a new secret.
type PushRotation struct {
	// Overlap is the time for which the previous secret stays valid. nil means the default.
	Overlap *time.Duration
	// Secret is the new secret. If it is empty, the server creates a random one.
	Secret string
}

// PushTest is the result of a test request.
type PushTest struct {
	Status    int
	As        duly.Settlement
	Error     string
	Took      time.Duration
	WebhookID string
}
