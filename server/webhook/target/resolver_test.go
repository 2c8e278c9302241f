package target

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/certtest"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/server/webhook/dispatch"
	"github.com/dulymq/duly/server/webhook/seal"
	"github.com/dulymq/duly/server/webhook/sign"
)

// onModel is a rig with a resolver for the queues of a model.
type onModel struct {
	*rig
	resolver *Resolver
	model    *model.Engine
}

func newOnModel(t *testing.T) *onModel {
	t.Helper()
	r := newRig(t)
	e := model.New(model.Config{Clock: r.clock})
	return &onModel{r, newResolver(t, r.Store, e), e}
}

func newResolver(t *testing.T, s *Store, e *model.Engine) *Resolver {
	t.Helper()
	r := NewResolver(s, e)
	t.Cleanup(r.Close)
	return r
}

func job(callback string) *duly.Delivery {
	d := &duly.Delivery{}
	d.Namespace, d.Queue, d.ID, d.Callback = "shop", "orders", "a", callback
	return d
}

// C16.5, C16.19, C16.20, C16.111: the destination of the job overrides that of the queue,
// and so do the destinations of notices.
func TestDestinationOfAJobOverridesTheQueue(t *testing.T) {
	t.Parallel()
	r := newOnModel(t)
	r.put(t, "crm", Settings{URL: "https://crm.example/hook", Concurrency: 7})
	err := r.model.Configure(t.Context(), duly.QueueRef{Namespace: "shop", Name: "orders"},
		duly.QueueConfig{Delivery: duly.DeliverPush,
			Push: duly.PushConfig{URL: "https://queue.example/x", OnDone: "target:crm",
				OnDead: "https://queue.example/dead"}})
	if err != nil {
		t.Fatal(err)
	}
	route, err := r.resolver.Resolve(t.Context(), job(""))
	if err != nil || route.To.URL.Host != "queue.example" || route.To.Target != "" || route.OnDone != "target:crm" ||
		route.OnDead != "https://queue.example/dead" {
		t.Errorf("by the queue: %+v, %v", route, err)
	}
	d := job("target:crm")
	d.OnDone, d.OnDead = duly.NoDestination, "https://job.example/dead"
	route, err = r.resolver.Resolve(t.Context(), d)
	if err != nil || route.To.Target != "crm" || route.To.Bounds.Concurrency != 7 || route.OnDone != "" ||
		route.OnDead != "https://job.example/dead" {
		t.Errorf("by the job: %+v, %v", route, err)
	}

	var held *dispatch.Postponed
	if _, err := r.resolver.Resolve(t.Context(), job("target:none")); !errors.As(err, &held) ||
		held.Reason != dispatch.Unknown {
		t.Errorf("an unknown target: %v", err)
	}
	if _, err := r.resolver.Resolve(t.Context(), job("http://8.8.8.8/")); !errors.Is(err, duly.ErrInvalid) {
		t.Errorf("a URL that the guard refuses: %v", err)
	}
}

// C16.17, C16.25: a change applies within two seconds, and a record is not read for every
// job.
func TestChangesApplySoon(t *testing.T) {
	t.Parallel()
	r := newOnModel(t)
	r.put(t, "crm", Settings{URL: "https://one.example"})

	host := func() string {
		to, err := r.resolver.Destination(t.Context(), "shop", "target:crm")
		if err != nil {
			return err.Error()
		}
		return to.URL.Host
	}

	for range 100 {
		host()
	}
	if r.shelf.reads > 6 {
		t.Errorf("100 jobs cost %d reads", r.shelf.reads)
	}
	r.put(t, "crm", Settings{URL: "https://two.example"})
	r.clock.Advance(2 * time.Second)
	if got := host(); got != "two.example" {
		t.Errorf("2 s after the change jobs go to %s", got)
	}
	if err := r.Enable(t.Context(), "shop", "crm", false); err != nil {
		t.Fatal(err)
	}
	r.resolver.Refresh()
	var held *dispatch.Postponed
	if _, err := r.resolver.Destination(t.Context(), "shop", "target:crm"); !errors.As(err, &held) ||
		held.Reason != dispatch.Disabled || held.Target != "crm" {
		t.Errorf("a disabled target: %v", err)
	}
	if to, err := r.resolver.Target(t.Context(), "shop", "crm"); err != nil || to.URL.Host != "two.example" {
		t.Errorf("a test of a disabled target: %v", err)
	}
}

// C16.17, C16.25: a target that is deleted and created again has the version of the old one.
// Its jobs are sent to the new URL, with the new headers.
func TestRecreatedTargetUsesTheNewURL(t *testing.T) {
	t.Parallel()
	r := newOnModel(t)
	r.put(t, "crm", Settings{URL: "https://old.example", Headers: map[string]string{"authorization": "old"}})
	if _, err := r.resolver.Destination(t.Context(), "shop", "target:crm"); err != nil {
		t.Fatal(err)
	}

	if err := r.Delete(t.Context(), "shop", "crm"); err != nil {
		t.Fatal(err)
	}
	r.put(t, "crm", Settings{URL: "https://new.example", Headers: map[string]string{"authorization": "new"}})
	r.clock.Advance(2 * time.Second)
	to, err := r.resolver.Destination(t.Context(), "shop", "target:crm")
	if err != nil || to.URL.Host != "new.example" || to.Headers["authorization"] != "new" {
		t.Errorf("jobs go to %+v, %v; want the new target", to, err)
	}
}

// C16.52, C16.53, C16.56: with a wrong key, no job has a destination, and the error has no
// secret.
func TestWrongKeyGivesNoDestination(t *testing.T) {
	t.Parallel()
	r := newOnModel(t)
	r.put(t, "headers", Settings{Headers: map[string]string{"x-a": "canary"}})
	r.put(t, "plain", Settings{})
	if _, err := r.Secret(t.Context(), "shop", ""); err != nil {
		t.Fatal(err)
	}
	wrong := newResolver(t, NewStore(r.shelf, newRing(t), r.guard, r.clock), r.model)

	for text, target := range map[string]string{"target:headers": "headers", "target:plain": "",
		"https://plain.example": ""} {
		_, err := wrong.Destination(t.Context(), "shop", text)
		var held *dispatch.Postponed
		if !errors.As(err, &held) || held.Reason != dispatch.Unreadable || held.Target != target ||
			!errors.Is(err, seal.ErrUnknownKey) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", text, err)
		}
	}

	r.shelf.fail = duly.ErrUnavailable
	var held *dispatch.Postponed
	if _, err := newResolver(t, r.Store, r.model).Destination(t.Context(), "shop", "target:plain"); !errors.As(err,
		&held) || held.Reason != dispatch.Unknown {
		t.Errorf("an engine that does not answer: %v", err)
	}
}

// C16.59, C16.60, C16.61: during the overlap a verifier with either secret accepts every
// request, and the clock ends it.
func TestVerifierAcceptsBothSecretsDuringTheOverlap(t *testing.T) {
	t.Parallel()
	r := newOnModel(t)
	r.put(t, "crm", Settings{})
	old, err := r.Rotate(t.Context(), "shop", "crm", nil, 0)
	if err != nil {
		t.Fatal(err)
	}

	accepts := func(p sign.Pair) bool {
		to, err := r.resolver.Destination(t.Context(), "shop", "target:crm")
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now() // real time, because the library compares it
		signature, err := to.Signer.Sign("id", now, []byte("body"))
		if err != nil {
			t.Fatal(err)
		}
		library, err := standardwebhooks.NewWebhook(p.V1.Reveal())
		if err != nil {
			t.Fatal(err)
		}
		return library.Verify([]byte("body"),
			map[string][]string{"Webhook-Id": {"id"}, "Webhook-Timestamp": {sign.Timestamp(now)},
				"Webhook-Signature": {signature}}) == nil
	}

	if !accepts(old) {
		t.Fatal("the first secret does not verify")
	}
	next, err := r.Rotate(t.Context(), "shop", "crm", nil, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	r.clock.Advance(2 * time.Second)

	for range 10 {
		if !accepts(old) || !accepts(next) {
			t.Error("a verifier refuses a request during the overlap")
		}
		r.clock.Advance(5 * time.Minute)
	}

	r.clock.Advance(10 * time.Minute)
	if accepts(old) || !accepts(next) {
		t.Error("after the overlap, not the new secret alone counts")
	}
	if _, err := r.Rotate(t.Context(), "shop", "crm", nil,
		sign.MaxOverlap+time.Second); !errors.Is(err, duly.ErrInvalid) {
		t.Errorf("an overlap that is too long: %v", err)
	}
}

// A target with a CA has separate connections, which are closed when the target is deleted.
func TestTargetWithCAHasSeparateConnections(t *testing.T) {
	t.Parallel()
	r := newOnModel(t)
	pem, err := os.ReadFile(certtest.NewCA(t, "authority").File)
	if err != nil {
		t.Fatal(err)
	}
	r.put(t, "crm", Settings{CA: string(pem)})

	to, err := r.resolver.Destination(t.Context(), "shop", "target:crm")
	if err != nil || to.Transport == r.resolver.plain {
		t.Fatalf("a target with a CA shares the connections of all: %v", err)
	}
	first := to.Transport
	r.clock.Advance(2 * time.Second)
	if to, _ = r.resolver.Destination(t.Context(), "shop", "target:crm"); to.Transport != first {
		t.Error("an unchanged target gets new connections")
	}
	r.put(t, "crm", Settings{CA: string(pem), Method: "PUT"})
	r.clock.Advance(2 * time.Second)
	if to, _ = r.resolver.Destination(t.Context(), "shop", "target:crm"); to.Transport == first {
		t.Error("a changed target keeps its connections")
	}
}

// C16.59: the first rotation of a target without a secret of its own overlaps with the
// secret of its namespace, which its receivers know.
func TestFirstRotationOverlapsWithTheNamespace(t *testing.T) {
	t.Parallel()
	r := newOnModel(t)
	r.put(t, "crm", Settings{})
	shared, err := r.Secret(t.Context(), "shop", "")
	if err != nil {
		t.Fatal(err)
	}
	own, err := r.Rotate(t.Context(), "shop", "crm", nil, time.Hour)
	if err != nil {
		t.Fatal(err)
	}

	signs := func() (count int) {
		to, err := r.resolver.Destination(t.Context(), "shop", "target:crm")
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now() // real time, because the library compares it
		signature, err := to.Signer.Sign("id", now, []byte("body"))
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range []sign.Pair{own, shared} {
			library, err := standardwebhooks.NewWebhook(p.V1.Reveal())
			if err != nil {
				t.Fatal(err)
			}
			header := map[string][]string{"Webhook-Id": {"id"}, "Webhook-Timestamp": {sign.Timestamp(now)},
				"Webhook-Signature": {signature}}
			if library.Verify([]byte("body"), header) == nil {
				count += 1 + i
			}
		}
		return count
	}

	if n := signs(); n != 3 {
		t.Errorf("during the overlap the signatures are %d, want those of both secrets", n)
	}
	r.clock.Advance(time.Hour + time.Second)
	if n := signs(); n != 1 {
		t.Errorf("after the overlap the signatures are %d, want that of the target alone", n)
	}
	if got, _ := r.Secret(t.Context(), "shop", ""); got.V1.Reveal() != shared.V1.Reveal() {
		t.Error("the rotation of a target changes the secret of its namespace")
	}
}
