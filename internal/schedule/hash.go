package schedule

import (
	"crypto/sha256"
	"encoding/json"
	"strings"
	"time"

	"github.com/dulymq/duly"
)

// Hash is a SHA-256 of fields of a definition.
type Hash [sha256.Size]byte

// TimingHash returns the hash of the fields that decide the ticks.
func TimingHash(d *duly.Schedule) Hash {
	zone := d.Zone
	if zone == "UTC" {
		zone = ""
	}
	return hashOf(struct {
		Spec  string `json:"spec"`
		Zone  string `json:"zone,omitempty"`
		Start *int64 `json:"start,omitempty"`
		End   *int64 `json:"end,omitempty"`
	}{d.Spec, zone, milli(d.Start), milli(d.End)})
}

// ContentHash returns the hash of every other field that a caller sets, except the name.
func ContentHash(d *duly.Schedule) Hash {
	c := struct {
		Jitter   time.Duration `json:"jitter,omitempty"`
		Catchup  duly.Catchup  `json:"catchup,omitempty"`
		Window   time.Duration `json:"window,omitempty"`
		Overlap  duly.Overlap  `json:"overlap,omitempty"`
		Owner    string        `json:"owner,omitempty"`
		Template template      `json:"template"`
	}{d.Jitter, d.Catchup, d.Window, d.Overlap, d.Owner, templateOf(&d.Template)}

	// A default that is spelled out equals one that is left out.
	if c.Catchup == duly.CatchupOne {
		c.Catchup = ""
	}
	if c.Window == duly.DefaultWindow {
		c.Window = 0
	}
	if c.Overlap == duly.OverlapSkip {
		c.Overlap = ""
	}
	return hashOf(c)
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

// hashOf returns the hash of the JSON of a struct. JSON keeps the order of its fields and
// sorts its maps.
func hashOf(fields any) Hash {
	text, err := json.Marshal(fields)
	if err != nil {
		panic(err) // strings and numbers always have a JSON
	}
	return sha256.Sum256(text)
}

// milli returns a time in ms, nil for none.
func milli(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	ms := t.UnixMilli()
	return &ms
}
