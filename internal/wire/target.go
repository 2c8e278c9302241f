package wire

import (
	"strconv"
	"time"

	"github.com/dulymq/duly"
)

// TargetSettings are those of a target of HTTP push. Zero is the default.
type TargetSettings struct {
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

// Target is a target as its readers see it.
type Target struct {
	Name string
	// Settings have no header values and no secret.
	Settings    TargetSettings
	HeaderNames []string
	OwnSecret   bool
	// OverlapUntil is when the secret before the newest ends; zero: there is none.
	OverlapUntil time.Time
	Version      int64
	// Host is the gate of its host; nil if that was not used.
	Host *PushHost
}

// PushHost is the gate of a host.
type PushHost struct {
	Host string
	Open bool
	// Closed is how long the closure still lasts.
	Closed                    time.Duration
	Limit, InFlight, HeldBack int
	Usual                     time.Duration
}

// PushSecret is a secret that is shown to its owner.
type PushSecret struct {
	Secret, PrivateKey, PublicKey string
}

// PushRotate is the request of a rotation.
type PushRotate struct {
	// Overlap is nil for the default.
	Overlap *time.Duration
	Secret  string
}

// PushTest is how a test request has ended.
type PushTest struct {
	Status    int
	As        duly.Settlement
	Error     string
	Took      time.Duration
	WebhookID string
}

const (
	mostStatuses = 100
	mostVersions = 2
)

// AppendTargetSettings writes the settings of a target.
func AppendTargetSettings(dst []byte, s TargetSettings) []byte {
	o := begin(dst)
	o.settings(&s)
	o.headers("headers", s.Headers)
	o.text("secret", s.Secret)
	return o.end()
}

func (o *object) settings(s *TargetSettings) {
	o.string("url", s.URL)
	o.text("method", s.Method)
	if s.Timeout != 0 {
		o.duration("timeout", s.Timeout)
	}
	o.ints("success", s.Success)
	o.ints("permanent", s.Permanent)
	if s.Concurrency != 0 {
		o.int("concurrency", int64(s.Concurrency))
	}
	if s.Rate.Limited() {
		o.rate("rate", s.Rate.PerSecond)
	}
	if s.Rate.Burst != 0 {
		o.int("burst", int64(s.Rate.Burst))
	}
	if len(s.Sign) > 0 {
		texts(o, "sign", s.Sign)
	}
	o.text("ca", s.CA)
	o.bool("enabled", !s.Disabled)
}

// ints writes numbers, if there are some.
func (o *object) ints(name string, numbers []int) {
	if len(numbers) > 0 {
		list(o, name, numbers, func(dst []byte, n *int) []byte { return strconv.AppendInt(dst, int64(*n), 10) })
	}
}

// ReadTargetSettings reads the settings of a target.
func ReadTargetSettings(text string, mode Mode) (s TargetSettings, err error) {
	err = parse(text, mode, func(r *reader) {
		for key := range r.object {
			switch key {
			case "headers":
				s.Headers = r.headers()
			case "secret":
				s.Secret = r.string(key)
			default:
				if !r.targetField(&s, key) {
					r.unknown(key)
				}
			}
		}
	})
	return s, err
}

func (r *reader) targetField(s *TargetSettings, key string) (known bool) {
	switch key {
	case "url":
		s.URL = r.string(key)
	case "method":
		s.Method = r.name(key)
	case "timeout":
		s.Timeout = r.span(key, false)
	case "success":
		s.Success = r.ints(key, mostStatuses)
	case "permanent":
		s.Permanent = r.ints(key, mostStatuses)
	case "concurrency":
		s.Concurrency = r.count(key, false)
	case "rate":
		s.Rate.PerSecond = r.rate(key)
	case "burst":
		s.Rate.Burst = r.count(key, false)
	case "sign":
		s.Sign = r.strings(key, mostVersions)
	case "ca":
		s.CA = r.string(key)
	case "enabled":
		s.Disabled = !r.boolean(key)
	default:
		return false
	}
	return true
}

// ints reads an array of numbers.
func (r *reader) ints(field string, most int) (numbers []int) {
	for i := range r.array {
		n := r.int(field)
		if i == most {
			r.bad(field, "has more than %d numbers", most)
		}
		if i < most {
			numbers = append(numbers, int(n))
		}
	}
	return numbers
}

// AppendTarget writes a target.
func AppendTarget(dst []byte, t *Target) []byte {
	o := begin(dst)
	o.string("name", t.Name)
	o.settings(&t.Settings)
	if len(t.HeaderNames) > 0 {
		texts(&o, "header_names", t.HeaderNames)
	}
	o.bool("own_secret", t.OwnSecret)
	if !t.OverlapUntil.IsZero() {
		o.time("overlap_until", t.OverlapUntil)
	}
	o.int("version", t.Version)
	if t.Host != nil {
		o.key("host")
		o.dst = appendPushHost(o.dst, t.Host)
	}
	return o.end()
}

// AppendTargets writes a page of targets.
func AppendTargets(dst []byte, targets []Target, next string) []byte {
	o := begin(dst)
	list(&o, "targets", targets, AppendTarget)
	o.string("next", next)
	return o.end()
}

// ReadTarget reads a target.
func ReadTarget(text string) (t Target, err error) {
	err = parse(text, Lenient, func(r *reader) { t = r.target() })
	return t, err
}

// ReadTargets reads a page of targets.
func ReadTargets(text string) (targets []Target, next string, err error) {
	err = readList(text, "targets", func(r *reader) { targets = append(targets, r.target()) }, func(r *reader, key string) bool {
		if key == "next" {
			next = r.string(key)
		}
		return key == "next"
	})
	return targets, next, err
}

func (r *reader) target() (t Target) {
	for key := range r.object {
		switch key {
		case "name":
			t.Name = r.string(key)
		case "header_names":
			t.HeaderNames = r.strings(key, duly.MaxHeaders)
		case "own_secret":
			t.OwnSecret = r.boolean(key)
		case "overlap_until":
			t.OverlapUntil = r.time(key)
		case "version":
			t.Version = r.int(key)
		case "host":
			host := r.pushHost()
			t.Host = &host
		default:
			if !r.targetField(&t.Settings, key) {
				r.unknown(key)
			}
		}
	}
	return t
}

// AppendPushHosts writes the gates of hosts.
func AppendPushHosts(dst []byte, hosts []PushHost) []byte {
	o := begin(dst)
	list(&o, "hosts", hosts, appendPushHost)
	return o.end()
}

func appendPushHost(dst []byte, h *PushHost) []byte {
	o := begin(dst)
	o.string("host", h.Host)
	o.bool("open", h.Open)
	if h.Closed > 0 {
		o.duration("closed", h.Closed)
	}
	o.int("limit", int64(h.Limit))
	o.int("in_flight", int64(h.InFlight))
	o.int("held_back", int64(h.HeldBack))
	if h.Usual > 0 {
		o.duration("usual", h.Usual)
	}
	return o.end()
}

// ReadPushHosts reads the gates of hosts.
func ReadPushHosts(text string) (hosts []PushHost, err error) {
	err = readList(text, "hosts", func(r *reader) { hosts = append(hosts, r.pushHost()) }, nil)
	return hosts, err
}

func (r *reader) pushHost() (h PushHost) {
	for key := range r.object {
		switch key {
		case "host":
			h.Host = r.string(key)
		case "open":
			h.Open = r.boolean(key)
		case "closed":
			h.Closed = r.span(key, false)
		case "limit":
			h.Limit = int(r.int(key))
		case "in_flight":
			h.InFlight = int(r.int(key))
		case "held_back":
			h.HeldBack = int(r.int(key))
		case "usual":
			h.Usual = r.span(key, false)
		default:
			r.unknown(key)
		}
	}
	return h
}

// AppendPushSecret writes a secret for its owner.
func AppendPushSecret(dst []byte, s PushSecret) []byte {
	o := begin(dst)
	o.string("secret", s.Secret)
	o.string("private_key", s.PrivateKey)
	o.string("public_key", s.PublicKey)
	return o.end()
}

// ReadPushSecret reads a secret.
func ReadPushSecret(text string) (s PushSecret, err error) {
	err = parse(text, Lenient, func(r *reader) {
		for key := range r.object {
			switch key {
			case "secret":
				s.Secret = r.string(key)
			case "private_key":
				s.PrivateKey = r.string(key)
			case "public_key":
				s.PublicKey = r.string(key)
			default:
				r.unknown(key)
			}
		}
	})
	return s, err
}

// AppendPushRotate writes the request of a rotation.
func AppendPushRotate(dst []byte, p PushRotate) []byte {
	o := begin(dst)
	if p.Overlap != nil {
		o.duration("overlap", *p.Overlap)
	}
	o.text("secret", p.Secret)
	return o.end()
}

// ReadPushRotate reads the request of a rotation.
func ReadPushRotate(text string, mode Mode) (p PushRotate, err error) {
	err = parse(text, mode, func(r *reader) {
		for key := range r.object {
			switch key {
			case "overlap":
				if d, given := r.duration(key); given {
					p.Overlap = &d
				}
			case "secret":
				p.Secret = r.string(key)
			default:
				r.unknown(key)
			}
		}
	})
	return p, err
}

// AppendPushTest writes how a test request has ended.
func AppendPushTest(dst []byte, t PushTest) []byte {
	o := begin(dst)
	if t.Status != 0 {
		o.int("status", int64(t.Status))
	}
	o.string("as", t.As.String())
	o.text("error", t.Error)
	o.duration("took", t.Took)
	o.string("webhook_id", t.WebhookID)
	return o.end()
}

// ReadPushTest reads how a test request has ended.
func ReadPushTest(text string) (t PushTest, err error) {
	err = parse(text, Lenient, func(r *reader) {
		for key := range r.object {
			switch key {
			case "status":
				t.Status = int(r.int(key))
			case "as":
				_ = t.As.UnmarshalText([]byte(r.string(key))) // zero: unknown
			case "error":
				t.Error = r.string(key)
			case "took":
				t.Took, _ = r.duration(key) // 0: less than 1 ms
			case "webhook_id":
				t.WebhookID = r.string(key)
			default:
				r.unknown(key)
			}
		}
	})
	return t, err
}
