package target

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/webhook"
	"github.com/dulymq/duly/server/webhook/gate"
	"github.com/dulymq/duly/server/webhook/guard"
	"github.com/dulymq/duly/server/webhook/seal"
	"github.com/dulymq/duly/server/webhook/sign"
)

// The limits of a target.
const (
	MaxConcurrency = 10_000
	MaxStatuses    = 100
	MaxCA          = 64 << 10
)

// Settings has the settings of a target. A zero field has the default in its comment.
type Settings struct {
	URL string
	// Method is POST, PUT or PATCH. Default POST.
	Method string
	// Headers are secrets.
	Headers map[string]string
	// Timeout is 1 s to 10 min. Default 10 s.
	Timeout time.Duration
	// Success has further statuses that count as success, Permanent those that bury the job. Both
	// have statuses from 200 to 599.
	Success, Permanent []int
	// Concurrency is the maximum number of requests in flight for each server. Default 64.
	Concurrency int
	// Rate bounds the requests per second of each server. Default: no bound.
	Rate duly.Rate
	// Sign lists v1, v1a, or both. Default v1.
	Sign []string
	// CA has additional certificate authorities, in PEM. By default, only those of the system are
	// trusted.
	CA string
	// Disabled targets get no requests.
	Disabled bool
}

// WithDefaults returns the settings with the defaults filled in.
func (s Settings) WithDefaults() Settings {
	if s.Method == "" {
		s.Method = "POST"
	}
	if s.Timeout == 0 {
		s.Timeout = webhook.DefaultTimeout
	}
	if s.Concurrency == 0 {
		s.Concurrency = gate.DefaultConcurrency
	}
	if len(s.Sign) == 0 {
		s.Sign = []string{"v1"}
	}
	return s
}

// Validate reports [duly.ErrInvalid] with every bad field.
func (s Settings) Validate(g *guard.Guard) error {
	var f contract.BadFields
	s = s.WithDefaults()

	// Every fault is reported, so that a caller need not repair one at a time.
	_, err := g.CheckURL("url", s.URL)
	f.Take(err)
	if !slices.Contains([]string{"POST", "PUT", "PATCH"}, s.Method) {
		f.Add("method", "is %s, must be POST, PUT or PATCH", contract.Quoted(s.Method))
	}
	f.Take(webhook.CheckTargetHeaders(s.Headers))
	if s.Timeout < webhook.MinTimeout || s.Timeout > webhook.MaxTimeout {
		f.Add("timeout", "is %s, must be between %s and %s", duly.FormatDuration(s.Timeout),
			duly.FormatDuration(webhook.MinTimeout), duly.FormatDuration(webhook.MaxTimeout))
	}

	checkStatuses(&f, "success", s.Success)
	checkStatuses(&f, "permanent", s.Permanent)
	// A status cannot be both, because one decides whether the other is read.
	for _, status := range s.Permanent {
		if slices.Contains(s.Success, status) {
			f.Add("permanent", "has %d, which success has too; remove one of them", status)
		}
	}

	if s.Concurrency < 1 || s.Concurrency > MaxConcurrency {
		f.Add("concurrency", "is %d, must be between 1 and %d", s.Concurrency, MaxConcurrency)
	}
	// The limits are the same as those of a queue's rate.
	f.Take(contract.ValidateConfig(duly.QueueConfig{Rate: s.Rate}))
	if _, err := sign.ParseVersions(s.Sign); err != nil {
		f.Take(err)
	}

	if len(s.CA) > MaxCA {
		f.Add("ca", "has %d bytes, may have at most %d", len(s.CA), MaxCA)
	} else if s.CA != "" {
		_, err := guard.Authorities([]byte(s.CA))
		f.Take(err)
	}
	return f.Err()
}

// checkStatuses checks a list of statuses.
func checkStatuses(f *contract.BadFields, field string, statuses []int) {
	if len(statuses) > MaxStatuses {
		f.Add(field, "has %d statuses, may have at most %d", len(statuses), MaxStatuses)
	}
	for _, status := range statuses {
		if status < 200 || status > 599 {
			f.Add(field, "has %d, must be between 200 and 599", status)
		}
	}
}

// Target is a registered target, as shown to readers.
type Target struct {
	Namespace, Name string
	Settings
	// HeaderNames has the names of the headers. Settings.Headers is nil.
	HeaderNames []string
	// OwnSecret is true if the target has a secret of its own.
	OwnSecret bool
	// Generations has the generations of its own secret, the newest first.
	Generations []sign.Generation
	Version     int64
}

// record is the stored form of a target.
type record struct {
	URL         string       `json:"url,omitempty"`
	Method      string       `json:"method,omitempty"`
	HeaderNames []string     `json:"header_names,omitempty"`
	Headers     []byte       `json:"headers,omitempty"` // sealed headers
	Timeout     int64        `json:"timeout_ms,omitempty"`
	Success     []int        `json:"success,omitempty"`
	Permanent   []int        `json:"permanent,omitempty"`
	Concurrency int          `json:"concurrency,omitempty"`
	PerSecond   float64      `json:"rate,omitempty"`
	Burst       int          `json:"burst,omitempty"`
	Sign        []string     `json:"sign,omitempty"`
	CA          string       `json:"ca,omitempty"`
	Disabled    bool         `json:"disabled,omitempty"`
	Secrets     []generation `json:"secrets,omitempty"` // generations of the secret, the newest first
}

// generation is one generation of a secret.
type generation struct {
	Number uint64 `json:"number"`
	Sealed []byte `json:"sealed"`
	Until  int64  `json:"until_ms,omitempty"` // 0 means that the generation has no end
}

// setSettings replaces the settings, and seals the headers.
func (r *record) setSettings(ring *seal.Ring, namespace, name string, s Settings) {
	r.URL, r.Method, r.Timeout = s.URL, s.Method, s.Timeout.Milliseconds()
	r.Success, r.Permanent, r.Concurrency = s.Success, s.Permanent, s.Concurrency
	// A negative rate means no rate limit.
	r.PerSecond, r.Burst = max(s.Rate.PerSecond, 0), s.Rate.Burst
	r.Sign, r.CA, r.Disabled = s.Sign, s.CA, s.Disabled

	// Readers see the names, but the values are sealed, because they may be credentials.
	r.HeaderNames, r.Headers = nil, nil
	if len(s.Headers) > 0 {
		text, _ := json.Marshal(s.Headers) // marshaling a map of strings never fails
		r.HeaderNames = slices.Sorted(maps.Keys(s.Headers))
		r.Headers = ring.Seal(text, headerPlace(namespace, name))
	}
}

// settings returns the stored settings, without headers.
func (r *record) settings() Settings {
	return Settings{
		URL: r.URL, Method: r.Method, Timeout: time.Duration(r.Timeout) * time.Millisecond,
		Success: r.Success, Permanent: r.Permanent, Concurrency: r.Concurrency,
		Rate: duly.Rate{PerSecond: r.PerSecond, Burst: r.Burst},
		Sign: r.Sign, CA: r.CA, Disabled: r.Disabled,
	}.WithDefaults()
}

// headers opens the headers.
func (r *record) headers(ring *seal.Ring, namespace, name string) (map[string]string, error) {
	if len(r.Headers) == 0 {
		return nil, nil
	}
	text, err := ring.Open(r.Headers, headerPlace(namespace, name))
	if err != nil {
		return nil, fmt.Errorf("the headers of target %s of namespace %s: %w", name, namespace, err)
	}
	var headers map[string]string
	if err := json.Unmarshal(text, &headers); err != nil {
		return nil, seal.ErrDamaged
	}
	return headers, nil
}

func headerPlace(namespace, name string) seal.Place {
	return seal.Place{Kind: "headers", Namespace: namespace, Target: name}
}

// secretSet returns the stored secret.
func (r *record) secretSet(namespace, name string) sign.Set {
	set := sign.Set{Namespace: namespace, Target: name}
	for _, s := range r.Secrets {
		g := sign.Generation{Number: s.Number, Sealed: s.Sealed}
		if s.Until != 0 {
			g.Until = time.UnixMilli(s.Until).UTC()
		}
		set.Generations = append(set.Generations, g)
	}
	return set
}

// setSecrets replaces the secret.
func (r *record) setSecrets(set sign.Set) {
	r.Secrets = nil
	for _, g := range set.Generations {
		s := generation{Number: g.Number, Sealed: g.Sealed}
		if !g.Until.IsZero() {
			s.Until = g.Until.UnixMilli()
		}
		r.Secrets = append(r.Secrets, s)
	}
}

// parse parses a stored record.
func parse(settings []byte) (*record, error) {
	r := &record{}
	if err := json.Unmarshal(settings, r); err != nil {
		return nil, contract.Errorf(duly.CodeInternal, "the stored settings of a target can't be read; set the target again")
	}
	return r, nil
}

// encode returns the stored form of the record.
func (r *record) encode() []byte {
	text, _ := json.Marshal(r) // marshaling a record never fails
	return text
}

// target returns the target for its readers.
func (r *record) target(namespace, name string, version int64) Target {
	return Target{Namespace: namespace, Name: name, Settings: r.settings(), HeaderNames: r.HeaderNames,
		OwnSecret: len(r.Secrets) > 0, Generations: r.secretSet(namespace, name).Generations, Version: version}
}
