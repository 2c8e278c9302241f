package target

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/webhook"
	"github.com/dulymq/duly/server/webhook/dispatch"
	"github.com/dulymq/duly/server/webhook/gate"
	"github.com/dulymq/duly/server/webhook/guard"
	"github.com/dulymq/duly/server/webhook/sign"
)

const (
	// freshTime is how long a record or a configuration is used that was read.
	freshTime = time.Second
	// mostRemembered bounds what a resolver remembers of each kind.
	mostRemembered = 10_000
)

// Resolver finds the destinations of jobs. It is a [dispatch.Resolver], and safe for
// concurrent use.
type Resolver struct {
	store  *Store
	config func(ctx context.Context, q duly.QueueRef) (duly.QueueConfig, error)
	// plain sends to URLs and to targets without a CA.
	plain *guard.Transport

	queues  cache[duly.QueueRef, *queue]
	targets cache[[2]string, *prepared]
	urls    cache[string, *url.URL]
}

// NewResolver returns a resolver for the queues of an engine.
func NewResolver(s *Store, engine contract.Inspector) *Resolver {
	r := &Resolver{store: s, config: engine.Config, plain: s.guard.NewTransport(nil)}
	r.targets.drop = func(p *prepared) { p.close() }
	return r
}

// Close closes the connections that are kept.
func (r *Resolver) Close() {
	r.targets.clear()
	r.plain.Close()
}

// queue is what a resolver needs of the configuration of a queue.
type queue struct{ url, onDone, onDead string }

// prepared is a record that was made ready to send.
type prepared struct {
	version   int64
	record    *record
	url       *url.URL
	headers   map[string]string
	versions  sign.Versions
	transport *guard.Transport // of its own, because of its CA; nil: none

	mu      sync.Mutex
	signers map[sign.Versions]signed // of its own secret
}

// signed is a signer, and when it must be replaced; zero: never.
type signed struct {
	signer *sign.Signer
	until  time.Time
}

func (p *prepared) close() {
	if p.transport != nil {
		p.transport.Close()
	}
}

// Resolve implements [dispatch.Resolver].
func (r *Resolver) Resolve(ctx context.Context, d *duly.Delivery) (*dispatch.Route, error) {
	q, err := r.queue(ctx, duly.QueueRef{Namespace: d.Namespace, Name: d.Queue})
	if err != nil {
		return nil, &dispatch.Held{Reason: dispatch.Unknown, Err: err}
	}
	route := &dispatch.Route{OnDone: destination(d.OnDone, q.onDone), OnDead: destination(d.OnDead, q.onDead)}
	text := destination(d.Callback, q.url)
	if text == "" {
		err := contract.Errorf(duly.CodeNotFound, "the job has no callback, and queue %s has no push_url any more; set one", d.Queue)
		return nil, &dispatch.Held{Reason: dispatch.Unknown, Err: err}
	}
	route.To, err = r.Destination(ctx, d.Namespace, text)
	return route, err
}

// destination is that of a job, else that of its queue; "" if there is none.
func destination(ofJob, ofQueue string) string {
	text := ofJob
	if text == "" {
		text = ofQueue
	}
	if text == duly.NoDestination {
		return ""
	}
	return text
}

// Destination returns what a URL or target:NAME is now.
func (r *Resolver) Destination(ctx context.Context, namespace, text string) (*webhook.Destination, error) {
	name, plain := contract.ParseDestination(text)
	if name == "" {
		return r.ofURL(ctx, namespace, plain)
	}
	p, err := r.prepare(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	if p.record.Disabled {
		return nil, &dispatch.Held{Reason: dispatch.Disabled, Target: name}
	}
	return r.ofTarget(ctx, namespace, name, p)
}

// Target returns the destination of a target, also of a disabled one.
func (r *Resolver) Target(ctx context.Context, namespace, name string) (*webhook.Destination, error) {
	p, err := r.prepare(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	return r.ofTarget(ctx, namespace, name, p)
}

// Disable implements [dispatch.Resolver].
func (r *Resolver) Disable(ctx context.Context, namespace, name string) error {
	err := r.store.Enable(ctx, namespace, name, false)
	r.targets.forget([2]string{namespace, name})
	return err
}

// Forget lets the next job of every target see its settings as they are now.
func (r *Resolver) Forget() { r.targets.stale() }

func (r *Resolver) ofURL(ctx context.Context, namespace, text string) (*webhook.Destination, error) {
	u, err := r.urls.get(r.now(), text, func(*url.URL) (*url.URL, error) { return r.store.guard.CheckURL("callback", text) })
	if err != nil {
		return nil, err
	}
	signer, err := r.signer(ctx, namespace, "", nil, sign.Versions{})
	if err != nil {
		return nil, err
	}
	return &webhook.Destination{URL: u, Signer: signer, Transport: r.plain}, nil
}

func (r *Resolver) ofTarget(ctx context.Context, namespace, name string, p *prepared) (*webhook.Destination, error) {
	signer, err := r.signer(ctx, namespace, name, p, p.versions)
	if err != nil {
		return nil, err
	}
	s := p.record.settings()
	to := &webhook.Destination{
		Target: name, URL: p.url, Method: s.Method, Headers: p.headers, Timeout: s.Timeout, Success: s.Success, Permanent: s.Permanent,
		Bounds: gate.Bounds{Concurrency: s.Concurrency, Rate: s.Rate}, Signer: signer, Transport: r.plain,
	}
	if p.transport != nil {
		to.Transport = p.transport
	}
	return to, nil
}

// signer returns what signs for a target: its own secret, else that of the namespace.
func (r *Resolver) signer(ctx context.Context, namespace, name string, p *prepared, with sign.Versions) (*sign.Signer, error) {
	if p == nil || len(p.record.Secrets) == 0 {
		name = ""
		var err error
		if p, err = r.prepare(ctx, namespace, ""); err != nil {
			return nil, err
		}
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	now := r.store.clock.Now()
	if s, ok := p.signers[with]; ok && (s.until.IsZero() || now.Before(s.until)) {
		return s.signer, nil
	}
	signer, until, err := p.record.set(namespace, name).Signer(r.store.ring, with, now)
	if err != nil {
		return nil, unreadable(name, err)
	}
	p.signers[with] = signed{signer, until}
	return signer, nil
}

func unreadable(name string, err error) error {
	return &dispatch.Held{Reason: dispatch.Unreadable, Target: name, Err: err}
}

// prepare reads a record and makes it ready. One with the same version stays as it is.
func (r *Resolver) prepare(ctx context.Context, namespace, name string) (*prepared, error) {
	return r.targets.get(r.now(), [2]string{namespace, name}, func(old *prepared) (*prepared, error) {
		rec, version, err := r.readOrCreate(ctx, namespace, name)
		if err != nil {
			return nil, &dispatch.Held{Reason: dispatch.Unknown, Target: name, Err: err}
		}
		// A target that was deleted and made again may have the version of the old one.
		if old != nil && old.version == version && reflect.DeepEqual(old.record, rec) {
			return old, nil
		}
		return r.make(namespace, name, rec, version)
	})
}

func (r *Resolver) readOrCreate(ctx context.Context, namespace, name string) (*record, int64, error) {
	if name == "" {
		return r.store.ofNamespace(ctx, namespace)
	}
	rec, version, err := r.store.read(ctx, namespace, name)
	if errors.Is(err, duly.ErrNotFound) {
		err = contract.Errorf(duly.CodeNotFound, "there is no target %s; create it, or its jobs wait", name)
	}
	return rec, version, err
}

func (r *Resolver) make(namespace, name string, rec *record, version int64) (*prepared, error) {
	p := &prepared{version: version, record: rec, signers: map[sign.Versions]signed{}}
	if name == "" {
		return p, nil
	}
	var err error
	if p.url, err = url.Parse(rec.URL); err != nil {
		return nil, contract.Invalid("url", "of target %s can't be read; set it again", name)
	}
	if p.headers, err = rec.headers(r.store.ring, namespace, name); err != nil {
		return nil, unreadable(name, err)
	}
	if p.versions, err = sign.ParseVersions(rec.settings().Sign); err != nil {
		return nil, err
	}
	if rec.CA != "" {
		roots, err := guard.Authorities([]byte(rec.CA))
		if err != nil {
			return nil, err
		}
		p.transport = r.store.guard.NewTransport(roots)
	}
	return p, nil
}

func (r *Resolver) queue(ctx context.Context, ref duly.QueueRef) (*queue, error) {
	return r.queues.get(r.now(), ref, func(*queue) (*queue, error) {
		c, err := r.config(ctx, ref)
		if err != nil {
			return nil, err
		}
		return &queue{c.Push.URL, c.Push.OnDone, c.Push.OnDead}, nil
	})
}

func (r *Resolver) now() time.Duration { return r.store.clock.Mono() }

// cache remembers what was read for a short time. One caller at a time reads a key.
type cache[K comparable, V any] struct {
	// drop is called with a value that is not used any more.
	drop func(V)

	mu      sync.Mutex
	entries map[K]*entry[V]
}

type entry[V any] struct {
	mu    sync.Mutex
	value V
	known bool
	at    time.Duration
	used  time.Duration
}

// get returns the value of a key, which read returns if it is not fresh. read gets the
// value that was remembered, else the zero value.
func (c *cache[K, V]) get(now time.Duration, key K, read func(old V) (V, error)) (V, error) {
	c.mu.Lock()
	e := c.entries[key]
	if e == nil {
		if len(c.entries) >= mostRemembered {
			c.evict()
		}
		if c.entries == nil {
			c.entries = map[K]*entry[V]{}
		}
		e = &entry[V]{}
		c.entries[key] = e
	}
	e.used = now
	c.mu.Unlock()

	e.mu.Lock()
	defer e.mu.Unlock()
	if e.known && now-e.at < freshTime {
		return e.value, nil
	}
	value, err := read(e.value)
	if err != nil {
		return value, err
	}
	old, was := e.value, e.known
	e.value, e.known, e.at = value, true, now
	if was && c.drop != nil && any(old) != any(value) {
		c.drop(old)
	}
	return value, nil
}

// evict removes a tenth of the keys: those that were not used for longest. c.mu is held.
func (c *cache[K, V]) evict() {
	keys := slices.Collect(maps.Keys(c.entries))
	slices.SortFunc(keys, func(a, b K) int { return int(c.entries[a].used - c.entries[b].used) })
	for _, key := range keys[:len(keys)/10+1] {
		c.remove(key)
	}
}

// remove forgets a key. c.mu is held.
func (c *cache[K, V]) remove(key K) {
	e := c.entries[key]
	delete(c.entries, key)
	if e == nil || c.drop == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.known {
		c.drop(e.value)
	}
}

// forget lets the next get of a key read.
func (c *cache[K, V]) forget(key K) {
	c.mu.Lock()
	e := c.entries[key]
	c.mu.Unlock()
	if e != nil {
		e.mu.Lock()
		e.at -= freshTime
		e.mu.Unlock()
	}
}

// stale lets the next get of every key read.
func (c *cache[K, V]) stale() {
	c.mu.Lock()
	keys := slices.Collect(maps.Keys(c.entries))
	c.mu.Unlock()
	for _, key := range keys {
		c.forget(key)
	}
}

// clear forgets all keys.
func (c *cache[K, V]) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.entries {
		c.remove(key)
	}
}
