package target

import (
	"cmp"
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
	// freshTime is how long a cached value is used.
	freshTime = time.Second
	// maxRemembered bounds the keys of each cache.
	maxRemembered = 10_000
)

// Resolver finds the destinations of jobs. It implements [dispatch.Resolver], and is safe
// for concurrent use.
type Resolver struct {
	store  *Store
	config func(ctx context.Context, q duly.QueueRef) (duly.QueueConfig, error)
	// plain sends requests to URLs and to targets without a CA.
	plain *guard.Transport

	queues  cache[duly.QueueRef, *queue]
	targets cache[[2]string, *prepared]
	urls    cache[string, *url.URL]
}

// NewResolver returns a resolver for the queues of an engine.
func NewResolver(s *Store, engine contract.Inspector) *Resolver {
	r := &Resolver{store: s, config: engine.Config, plain: s.guard.NewTransport(nil)}
	r.targets.onDrop = func(p *prepared) { p.close() }
	return r
}

// Close closes the idle connections.
func (r *Resolver) Close() {
	r.targets.clear()
	r.plain.Close()
}

// queue has the destinations in the configuration of a queue.
type queue struct{ url, onDone, onDead string }

// prepared is a record with decrypted headers and a parsed URL.
type prepared struct {
	version   int64
	record    *record
	url       *url.URL
	headers   map[string]string
	versions  sign.Versions
	transport *guard.Transport // transport for the target's CA; nil without a CA

	mu      sync.Mutex
	signers map[sign.Versions]cachedSigner // signers with the record's secret, by versions
}

// cachedSigner is a signer and the time at which it must be replaced. A zero time means never.
type cachedSigner struct {
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
	// The queue comes first: a job without a callback uses the URL of its queue.
	q, err := r.queue(ctx, duly.QueueRef{Namespace: d.Namespace, Name: d.Queue})
	if err != nil {
		return nil, &dispatch.Postponed{Reason: dispatch.Unknown, Err: err}
	}

	route := &dispatch.Route{OnDone: firstDestination(d.OnDone, q.onDone), OnDead: firstDestination(d.OnDead, q.onDead)}
	text := firstDestination(d.Callback, q.url)
	// The job waits, because the queue may get a URL again.
	if text == "" {
		err := contract.Errorf(duly.CodeNotFound,
			"the job has no callback, and queue %s no longer has a push_url; set one", d.Queue)
		return nil, &dispatch.Postponed{Reason: dispatch.Unknown, Err: err}
	}
	route.To, err = r.Destination(ctx, d.Namespace, text)
	return route, err
}

// firstDestination returns the destination of the job, or else of its queue; or "" if neither has
// one.
func firstDestination(ofJob, ofQueue string) string {
	text := cmp.Or(ofJob, ofQueue)
	if text == duly.NoDestination {
		return ""
	}
	return text
}

// Destination returns the current destination of a URL or of target:NAME.
func (r *Resolver) Destination(ctx context.Context, namespace, text string) (*webhook.Destination, error) {
	name, plain := contract.ParseDestination(text)
	if name == "" {
		return r.urlDestination(ctx, namespace, plain)
	}
	p, err := r.prepare(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	// Jobs wait while their target is disabled. A test of a target uses the method Target instead, so
	// it also works for a disabled one.
	if p.record.Disabled {
		return nil, &dispatch.Postponed{Reason: dispatch.Disabled, Target: name}
	}
	return r.targetDestination(ctx, namespace, name, p)
}

// Target returns the destination of a target, even if the target is disabled.
func (r *Resolver) Target(ctx context.Context, namespace, name string) (*webhook.Destination, error) {
	p, err := r.prepare(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	return r.targetDestination(ctx, namespace, name, p)
}

// Disable implements [dispatch.Resolver].
func (r *Resolver) Disable(ctx context.Context, namespace, name string) error {
	err := r.store.Enable(ctx, namespace, name, false)
	// The entry expires even after an error, because the change may have succeeded.
	r.targets.expire([2]string{namespace, name})
	return err
}

// Refresh expires the cached targets, so the next job of each reads its current settings.
func (r *Resolver) Refresh() { r.targets.expireAll() }

// urlDestination returns the destination of a URL.
func (r *Resolver) urlDestination(ctx context.Context, namespace, text string) (*webhook.Destination, error) {
	// Parsing is cached. The transport checks the address again for each connection.
	u, err := r.urls.get(r.now(), text, func(*url.URL) (*url.URL, error) {
		return r.store.guard.CheckURL("callback", text)
	})
	if err != nil {
		return nil, err
	}
	signer, err := r.signer(ctx, namespace, "", nil, sign.Versions{})
	if err != nil {
		return nil, err
	}
	return &webhook.Destination{URL: u, Signer: signer, Transport: r.plain}, nil
}

// targetDestination returns the destination of a target.
func (r *Resolver) targetDestination(
	ctx context.Context, namespace, name string, p *prepared,
) (*webhook.Destination, error) {
	signer, err := r.signer(ctx, namespace, name, p, p.versions)
	if err != nil {
		return nil, err
	}

	s := p.record.settings()
	to := &webhook.Destination{
		Target: name, URL: p.url, Method: s.Method, Headers: p.headers, Timeout: s.Timeout,
		Success: s.Success, Permanent: s.Permanent, Signer: signer, Transport: r.plain,
		Bounds: gate.Bounds{Concurrency: s.Concurrency, Rate: s.Rate},
	}
	if p.transport != nil {
		to.Transport = p.transport
	}
	return to, nil
}

// signer returns the signer of a target's own secret, or else of its namespace's secret.
func (r *Resolver) signer(
	ctx context.Context, namespace, name string, p *prepared, with sign.Versions,
) (*sign.Signer, error) {
	// A target without a secret uses the secret of its namespace.
	if p == nil || len(p.record.Secrets) == 0 {
		name = ""
		var err error
		if p, err = r.prepare(ctx, namespace, ""); err != nil {
			return nil, err
		}
	}

	// A signer is created once and used by all tries, until one of its secrets ends.
	p.mu.Lock()
	defer p.mu.Unlock()
	now := r.store.clock.Now()
	// In an overlap the signer has two secrets, and is valid until the older one ends.
	if s, ok := p.signers[with]; ok && (s.until.IsZero() || now.Before(s.until)) {
		return s.signer, nil
	}

	signer, until, err := p.record.secretSet(namespace, name).Signer(r.store.ring, with, now)
	if err != nil {
		return nil, unreadable(name, err)
	}
	p.signers[with] = cachedSigner{signer, until}
	return signer, nil
}

// unreadable returns the error of a target whose secret or headers can't be opened.
func unreadable(name string, err error) error {
	return &dispatch.Postponed{Reason: dispatch.Unreadable, Target: name, Err: err}
}

// prepare reads and prepares a record, unless it has not changed.
func (r *Resolver) prepare(ctx context.Context, namespace, name string) (*prepared, error) {
	return r.targets.get(r.now(), [2]string{namespace, name}, func(old *prepared) (*prepared, error) {
		rec, version, err := r.readOrCreate(ctx, namespace, name)
		if err != nil {
			return nil, &dispatch.Postponed{Reason: dispatch.Unknown, Target: name, Err: err}
		}
		// A target that was deleted and created again may have the version of the old target.
		if old != nil && old.version == version && reflect.DeepEqual(old.record, rec) {
			return old, nil
		}
		return r.prepareTarget(namespace, name, rec, version)
	})
}

// readOrCreate reads a record. If the name is empty, it reads the record of the namespace, and
// creates it if it is missing.
func (r *Resolver) readOrCreate(ctx context.Context, namespace, name string) (*record, int64, error) {
	if name == "" {
		return r.store.namespaceSecret(ctx, namespace)
	}
	rec, version, err := r.store.read(ctx, namespace, name)
	if errors.Is(err, duly.ErrNotFound) {
		err = contract.Errorf(duly.CodeNotFound, "there is no target %s; create it, because its jobs wait for it", name)
	}
	return rec, version, err
}

// prepareTarget prepares a record.
func (r *Resolver) prepareTarget(namespace, name string, rec *record, version int64) (*prepared, error) {
	p := &prepared{version: version, record: rec, signers: map[sign.Versions]cachedSigner{}}
	if name == "" {
		return p, nil
	}

	var err error
	// A stored record was valid when it was written, perhaps by an older version.
	if p.url, err = url.Parse(rec.URL); err != nil {
		return nil, contract.Invalid("url", "of target %s can't be read; set it again", name)
	}
	if p.headers, err = rec.headers(r.store.ring, namespace, name); err != nil {
		return nil, unreadable(name, err)
	}
	if p.versions, err = sign.ParseVersions(rec.settings().Sign); err != nil {
		return nil, err
	}

	// Only a target with authorities of its own needs connections of its own.
	if rec.CA != "" {
		roots, err := guard.Authorities([]byte(rec.CA))
		if err != nil {
			return nil, err
		}
		p.transport = r.store.guard.NewTransport(roots)
	}
	return p, nil
}

// queue returns the destinations of a queue.
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

// cache stores values for freshTime. Only one caller at a time reads the value of a key.
type cache[K comparable, V any] struct {
	// onDrop, if set, is called with each value that leaves the cache.
	onDrop func(V)

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

// get returns the value of a key. If the value is older than freshTime, it calls read with
// the old value, or with the zero value.
func (c *cache[K, V]) get(now time.Duration, key K, read func(old V) (V, error)) (V, error) {
	c.mu.Lock()
	e := c.entries[key]
	if e == nil {
		if len(c.entries) >= maxRemembered {
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

	// The lock of the entry lets one caller read, while other callers with the same key wait for
	// the value.
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.known && now-e.at < freshTime {
		return e.value, nil
	}

	// An error is not stored, so the next job tries again.
	value, err := read(e.value)
	if err != nil {
		return value, err
	}
	old, hadOld := e.value, e.known
	e.value, e.known, e.at = value, true, now
	// The old value may have open connections.
	if hadOld && c.onDrop != nil && any(old) != any(value) {
		c.onDrop(old)
	}
	return value, nil
}

// evict removes a tenth of the keys, the least recently used. c.mu is held.
func (c *cache[K, V]) evict() {
	keys := slices.Collect(maps.Keys(c.entries))
	slices.SortFunc(keys, func(a, b K) int { return int(c.entries[a].used - c.entries[b].used) })
	for _, key := range keys[:len(keys)/10+1] {
		c.remove(key)
	}
}

// remove removes a key. c.mu is held.
func (c *cache[K, V]) remove(key K) {
	e := c.entries[key]
	delete(c.entries, key)
	// A cache without onDrop holds nothing that has to be closed.
	if e == nil || c.onDrop == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.known {
		c.onDrop(e.value)
	}
}

// expire makes the next get of a key read its value.
func (c *cache[K, V]) expire(key K) {
	c.mu.Lock()
	e := c.entries[key]
	c.mu.Unlock()
	if e != nil {
		e.mu.Lock()
		e.at -= freshTime
		e.mu.Unlock()
	}
}

// expireAll makes the next get of every key read its value.
func (c *cache[K, V]) expireAll() {
	c.mu.Lock()
	// expire takes the lock itself, and waits for callers that are reading a value.
	keys := slices.Collect(maps.Keys(c.entries))
	c.mu.Unlock()
	for _, key := range keys {
		c.expire(key)
	}
}

// clear removes all keys.
func (c *cache[K, V]) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.entries {
		c.remove(key)
	}
}
