package schedule

import (
	"crypto/sha256"
	"encoding/json"
	"strings"
	"time"

	"github.com/dulymq/duly"
)

// Hash is a SHA-256 of fields of a schedule.
type Hash [sha256.Size]byte

// timing has the fields that decide the ticks. Defaults are left out.
type timing struct {
	Spec  string `json:"spec"`
	Zone  string `json:"zone,omitempty"`
	Start *int64 `json:"start,omitempty"`
	End   *int64 `json:"end,omitempty"`
}

// content has all fields that a caller sets, except the name and those of the timing.
type content struct {
	Jitter   time.Duration `json:"jitter,omitempty"`
	Catchup  duly.Catchup  `json:"catchup,omitempty"`
	Window   time.Duration `json:"window,omitempty"`
	Overlap  duly.Overlap  `json:"overlap,omitempty"`
	Owner    string        `json:"owner,omitempty"`
	Template template      `json:"template"`
}

// TimingHash returns the hash of the fields that decide the ticks.
func TimingHash(s *duly.Schedule) Hash { return hashOf(timingOf(s)) }

// ContentHash returns the hash of all fields that a caller sets, except the name and those of the
// timing.
func ContentHash(s *duly.Schedule) Hash { return hashOf(contentOf(s)) }

func timingOf(s *duly.Schedule) timing {
	t := timing{s.Spec, s.Zone, milli(s.Start), milli(s.End)}
	// An explicit default is the same as an absent field.
	if t.Zone == "UTC" {
		t.Zone = ""
	}
	return t
}

func contentOf(s *duly.Schedule) content {
	c := content{s.Jitter, s.Catchup, s.Window, s.Overlap, s.Owner, templateOf(&s.Template)}
	if c.Catchup == duly.CatchupOne {
		c.Catchup = ""
	}
	if c.Window == duly.DefaultWindow {
		c.Window = 0
	}
	if c.Overlap == duly.OverlapSkip {
		c.Overlap = ""
	}
	return c
}

// template has the fields of a job that a template can set, in the order of the hash.
// New fields go to the end and have omitempty, so that the hashes of stored schedules
// stay the same.
type template struct {
	Body      []byte            `json:"body,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
	Priority  int               `json:"priority,omitempty"`
	Tries     int               `json:"tries,omitempty"`
	MaxStalls int               `json:"max_stalls,omitempty"`
	Backoff   duly.Backoff      `json:"backoff,omitempty"`
	TTL       time.Duration     `json:"ttl,omitempty"`
	Lease     time.Duration     `json:"lease,omitempty"`
	OrderKey  string            `json:"order_key,omitempty"`
	Merge     *merge            `json:"merge,omitempty"`
	Callback  string            `json:"callback,omitempty"`
	OnDone    string            `json:"on_done,omitempty"`
	OnDead    string            `json:"on_dead,omitempty"`
	Retain    time.Duration     `json:"retain,omitempty"`
}

type merge struct {
	Key     string          `json:"key,omitempty"`
	Mode    duly.MergeMode  `json:"mode,omitempty"`
	MaxWait time.Duration   `json:"max_wait,omitempty"`
	Until   duly.MergeUntil `json:"until,omitempty"`
}

func templateOf(j *duly.Job) template {
	t := template{
		Body: j.Body, Priority: j.Priority, Tries: j.Tries, MaxStalls: j.MaxStalls, Backoff: j.Backoff,
		TTL: j.TTL, Lease: j.Lease, OrderKey: j.OrderKey, Callback: j.Callback, OnDone: j.OnDone, OnDead: j.OnDead,
		Retain: j.Retain,
	}
	if len(j.Headers) > 0 {
		t.Headers = make(map[string]string, len(j.Headers))
		for name, value := range j.Headers {
			t.Headers[strings.ToLower(name)] = value
		}
	}

	if j.Merge.Set() {
		t.Merge = &merge{j.Merge.Key, j.Merge.Mode, j.Merge.MaxWait, j.Merge.Until}
		if t.Merge.Mode == duly.MergeKeep {
			t.Merge.Mode = ""
		}
		if t.Merge.Until == duly.UntilLeased {
			t.Merge.Until = ""
		}
	}
	return t
}

// hashOf returns the hash of the JSON of a struct.
func hashOf(fields any) Hash { return sha256.Sum256(jsonOf(fields)) }

// jsonOf returns the JSON of a struct, which keeps the order of its fields and sorts its
// maps.
func jsonOf(fields any) []byte {
	text, err := json.Marshal(fields)
	if err != nil {
		panic(err) // impossible, because strings and numbers can always be marshaled
	}
	return text
}

// milli returns a time in ms, or nil for the zero time.
func milli(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	ms := t.UnixMilli()
	return &ms
}
