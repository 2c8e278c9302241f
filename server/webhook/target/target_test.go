package target

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/server/webhook/guard"
	"github.com/dulymq/duly/server/webhook/seal"
	"github.com/dulymq/duly/server/webhook/sign"
)

// shelf stores records in memory.
type shelf struct {
	mu      sync.Mutex
	records map[[2]string]contract.Target
	reads   int
	// before is called before a record is stored, without a lock.
	before func()
	fail   error
}

func (s *shelf) PutTarget(_ context.Context, r contract.Target) error {
	if before := s.before; before != nil {
		s.before = nil
		before()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := [2]string{r.Namespace, r.Name}
	if s.records[key].Version != r.Version {
		return duly.ErrConflict
	}
	r.Version++
	s.records[key] = r
	return nil
}

func (s *shelf) FindTarget(_ context.Context, namespace, name string) (contract.Target, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	r, ok := s.records[[2]string{namespace, name}]
	switch {
	case s.fail != nil:
		return contract.Target{}, s.fail
	case !ok:
		return contract.Target{}, duly.ErrNotFound
	}
	return r, nil
}

func (s *shelf) Targets(_ context.Context, namespace string, _ duly.PageParams) (page contract.TargetPage, err error) {
	for key, r := range s.records {
		if key[0] == namespace && key[1] != "" {
			page.Targets = append(page.Targets, r)
		}
	}
	slices.SortFunc(page.Targets, func(a, b contract.Target) int { return strings.Compare(a.Name, b.Name) })
	return page, nil
}

func (s *shelf) PushQueues(context.Context, duly.PageParams) (page contract.QueuePage, err error) {
	return page, nil
}

func (s *shelf) DeleteTarget(_ context.Context, namespace, name string) error {
	key := [2]string{namespace, name}
	if _, ok := s.records[key]; !ok {
		return duly.ErrNotFound
	}
	delete(s.records, key)
	return nil
}

// rig is a store with records in memory.
type rig struct {
	*Store
	shelf *shelf
	clock *clock.Fake
}

func newRig(t *testing.T) *rig {
	t.Helper()
	g, err := guard.New(guard.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{shelf: &shelf{records: map[[2]string]contract.Target{}}, clock: clock.NewFake()}
	r.Store = NewStore(r.shelf, newRing(t), g, r.clock)
	return r
}

func newRing(t *testing.T) *seal.Ring {
	t.Helper()
	ring, err := seal.Parse(seal.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func (r *rig) put(t *testing.T, name string, s Settings) {
	t.Helper()
	if s.URL == "" {
		s.URL = "https://crm.example/hook"
	}
	if err := r.Put(t.Context(), "shop", name, s, nil); err != nil {
		t.Fatal(err)
	}
}

// C16.21: the fields of a target have limits and defaults.
func TestSettingsHaveLimitsAndDefaults(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put(t, "crm", Settings{})
	got, err := r.Get(t.Context(), "shop", "crm")
	if err != nil || got.URL != "https://crm.example/hook" || got.Method != "POST" || got.Timeout != 10*time.Second ||
		got.Concurrency != 64 ||
		got.Rate.Limited() || !slices.Equal(got.Sign, []string{"v1"}) || got.Disabled || got.OwnSecret ||
		got.Version != 1 {
		t.Errorf("a target with defaults is %+v, %v", got, err)
	}

	full := Settings{URL: "https://crm.example:8443/x", Method: "PUT",
		Headers: map[string]string{"authorization": "Bearer canary", "x-a": "1"}, Timeout: time.Minute,
		Success: []int{302}, Permanent: []int{404, 422}, Concurrency: 3, Rate: duly.Rate{PerSecond: 5, Burst: 2},
		Sign: []string{"v1", "v1a"}, Disabled: true}
	r.put(t, "crm", full)
	got, _ = r.Get(t.Context(), "shop", "crm")
	if got.Method != "PUT" || got.Timeout != time.Minute || !slices.Equal(got.Success, []int{302}) ||
		!slices.Equal(got.Permanent, []int{404, 422}) || got.Concurrency != 3 ||
		got.Rate != full.Rate || !got.Disabled || !slices.Equal(got.HeaderNames, []string{"authorization", "x-a"}) ||
		got.Headers != nil || got.Version != 2 {
		t.Errorf("the target is %+v", got)
	}

	big := map[string]string{}
	for i := range 33 {
		big[fmt.Sprint("x-", i)] = "1"
	}
	for field, s := range map[string]Settings{
		"url": {URL: "ftp://crm.example"}, "method": {Method: "GET"}, "headers": {Headers: big},
		"timeout": {Timeout: time.Millisecond},
		"success": {Success: []int{99}}, "permanent": {Permanent: []int{600}}, "concurrency": {Concurrency: -1},
		"rate": {Rate: duly.Rate{PerSecond: 1e9}},
		"sign": {Sign: []string{"v2"}}, "ca": {CA: "no PEM"},
	} {
		if s.URL == "" {
			s.URL = "https://crm.example"
		}
		if err := r.Put(t.Context(), "shop", "bad", s, nil); !errors.Is(err, duly.ErrInvalid) ||
			!strings.Contains(err.Error(), field) {
			t.Errorf("a bad %s: %v", field, err)
		}
	}
	if _, err := r.Get(t.Context(), "shop", "bad"); !errors.Is(err, duly.ErrNotFound) {
		t.Errorf("a bad target: %v", err)
	}
}

// C16.54, C16.57: an engine gets no secret and no header value in plain text.
func TestStoredTextsAreSealed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put(t, "crm", Settings{Headers: map[string]string{"authorization": "Bearer canary-header"}})
	pair, err := r.Rotate(t.Context(), "shop", "crm", nil, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Secret(t.Context(), "shop", ""); err != nil {
		t.Fatal(err)
	}

	for key, stored := range r.shelf.records {
		for _, canary := range []string{"canary-header", pair.V1.Reveal(), pair.V1a.Reveal(),
			strings.TrimPrefix(pair.V1.Reveal(), "whsec_")} {
			if bytes.Contains(stored.Settings, []byte(canary)) {
				t.Errorf("record %v has a secret in the clear", key)
			}
		}
	}

	got, _ := r.Get(t.Context(), "shop", "crm")
	if text := fmt.Sprintf("%+v", got); strings.Contains(text, "canary") {
		t.Errorf("the target prints as %s", text)
	}
}

// C16.50: the secret of a namespace is created when it is first needed. If two servers need the
// secret at the same time, only one is created. A target with its own secret does not use that of
// the namespace.
func TestSecretOfANamespaceIsCreatedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	other := NewStore(r.shelf, r.ring, r.guard, r.clock)
	var first sign.Pair
	r.shelf.before = func() { first, _ = other.Secret(context.Background(), "shop", "") }

	second, err := r.Secret(t.Context(), "shop", "")
	if err != nil || first.V1.Reveal() != second.V1.Reveal() {
		t.Errorf("two servers make two secrets: %v", err)
	}
	r.put(t, "crm", Settings{})
	if got, _ := r.Secret(t.Context(), "shop", "crm"); got.V1.Reveal() != first.V1.Reveal() {
		t.Error("a target without a secret does not use that of its namespace")
	}
	own, err := r.Rotate(t.Context(), "shop", "crm", nil, 0)
	if got, _ := r.Secret(t.Context(), "shop", "crm"); err != nil || got.V1.Reveal() != own.V1.Reveal() ||
		own.V1.Reveal() == first.V1.Reveal() {
		t.Errorf("a target does not use its own secret: %v", err)
	}
	if elsewhere, _ := r.Secret(t.Context(), "other", ""); elsewhere.V1.Reveal() == first.V1.Reveal() {
		t.Error("two namespaces have one secret")
	}
}

// A change is repeated after a conflict with another server, so both changes succeed.
func TestConcurrentChangesBothSucceed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put(t, "crm", Settings{})
	r.shelf.before = func() { _ = r.Enable(context.Background(), "shop", "crm", false) }
	if _, err := r.Rotate(t.Context(), "shop", "crm", nil, time.Hour); err != nil {
		t.Fatal(err)
	}
	got, _ := r.Get(t.Context(), "shop", "crm")
	if !got.Disabled || !got.OwnSecret || got.Version != 3 {
		t.Errorf("the target is %+v", got)
	}

	for what, err := range map[string]error{
		"enable": r.Enable(t.Context(), "shop", "none", true), "delete": r.Delete(t.Context(), "shop", "none"),
	} {
		if !errors.Is(err, duly.ErrNotFound) {
			t.Errorf("%s of a target that does not exist: %v", what, err)
		}
	}

	if _, err := r.Rotate(t.Context(), "shop", "none", nil, 0); !errors.Is(err, duly.ErrNotFound) {
		t.Errorf("rotate of a target that does not exist: %v", err)
	}
}
