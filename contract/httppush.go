package contract

import (
	"time"

	"github.com/dulymq/duly"
)

// Servers and package httpengine exchange the following types for the administration of HTTP push.
// An engine stores a [Target] and does not read these types.

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
