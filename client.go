package duly

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"
)

// Client is the friendly side of an engine for programs that push jobs. It
// makes the jobs' IDs before the first try and repeats a push whose answer was
// lost, so that a job is there once however often the wire breaks. It is safe
// for concurrent use. The zero value is not usable; see [NewClient].
type Client struct {
	engine Engine
	cfg    ClientConfig
	dedupe windowCache
}

// ClientConfig is how a Client behaves. Its zero value works.
type ClientConfig struct {
	// Namespace is used for jobs that name none. Default: the engine's, see
	// [NamespaceOf].
	Namespace string
	// Repeats is how often a push, or what of its jobs, is sent again that
	// ended as [ErrUnavailable] or [ErrNotDurable], while its context allows.
	// Default 3; None: never.
	Repeats int
	// Pause is the wait before the first repeat; it doubles with each. Default
	// 100 ms.
	Pause time.Duration
	// Clock is for tests. Default the system's.
	Clock Clock
}

// NewClient returns a Client that pushes into an engine. It does not own the
// engine: close that when everybody is done with it.
func NewClient(engine Engine, cfg ClientConfig) *Client {
	if cfg.Namespace == "" {
		cfg.Namespace = NamespaceOf(engine)
	}
	if cfg.Repeats == 0 {
		cfg.Repeats = 3
	}
	if cfg.Pause <= 0 {
		cfg.Pause = 100 * time.Millisecond
	}
	if cfg.Clock == nil {
		cfg.Clock = SystemClock()
	}
	return &Client{engine: engine, cfg: cfg}
}

// Engine returns the engine behind the client.
func (c *Client) Engine() Engine { return c.engine }

// Queue names a queue of the client's namespace.
func (c *Client) Queue(name string) QueueRef { return QueueRef{c.cfg.Namespace, name} }

// Push pushes one job. Its result tells the ID, and whether the job was made,
// merged, or there already; bad input is [ErrInvalid] and names the field.
func (c *Client) Push(ctx context.Context, queue string, body []byte, opts ...Option) (PushResult, error) {
	j := Job{Queue: queue, Body: body}
	for _, opt := range opts {
		opt(&j)
	}
	results, err := c.PushMany(ctx, []Job{j})
	if err != nil {
		return PushResult{}, err
	}
	return results[0], results[0].Err
}

// PushJSON pushes one job whose body is v as JSON.
func (c *Client) PushJSON(ctx context.Context, queue string, v any, opts ...Option) (PushResult, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return PushResult{}, invalid("body", "can't be written as JSON: %v", err)
	}
	return c.Push(ctx, queue, body, opts...)
}

// PushMany pushes up to [MaxBatch] jobs in one call, with a result for each in
// order. The error is that of the call as a whole: some of the jobs may be
// stored, and pushing all of them again with the IDs they were given is safe.
// So it is for items that ended as [ErrUnavailable] or [ErrNotDurable]. The
// jobs' IDs are filled in.
func (c *Client) PushMany(ctx context.Context, jobs []Job) ([]PushResult, error) {
	for i := range jobs {
		c.name(&jobs[i])
	}
	results, err := c.push(ctx, jobs)
	pause := c.cfg.Pause
	for range c.cfg.Repeats {
		if !repeatMends(err) && !slices.ContainsFunc(results, func(r PushResult) bool { return repeatMends(r.Err) }) {
			break
		}
		if sleep(ctx, c.cfg.Clock, pause) != nil {
			break // the error of the push says more
		}
		pause *= 2
		if err != nil {
			results, err = c.push(ctx, jobs)
		} else {
			c.pushRest(ctx, jobs, results)
		}
	}
	return results, err
}

// push is one try. Whatever it is answered, whoever pushes the jobs again, here
// or behind the client, repeats: they may be stored under their numbers.
func (c *Client) push(ctx context.Context, jobs []Job) ([]PushResult, error) {
	results, err := c.engine.Push(ctx, jobs)
	for i := range jobs {
		jobs[i].Made = false
	}
	return results, err
}

// pushRest pushes those jobs again which a repeat may mend.
func (c *Client) pushRest(ctx context.Context, jobs []Job, results []PushResult) {
	var rest []Job
	var at []int // their places
	for i, r := range results {
		if repeatMends(r.Err) {
			rest, at = append(rest, jobs[i]), append(at, i)
		}
	}
	again, err := c.push(ctx, rest)
	for k, i := range at {
		if err != nil {
			results[i].Err = err
			continue
		}
		results[i] = again[k]
	}
}

// repeatMends tells whether a push that ended so is worth a repeat.
func repeatMends(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrNotDurable)
}

// Cancel deletes a job in whatever state it is; [ErrNotFound] if it is gone
// already.
func (c *Client) Cancel(ctx context.Context, queue, id string) error {
	return c.engine.Delete(ctx, c.Queue(queue), id)
}

func (c *Client) name(j *Job) {
	if j.Namespace == "" {
		j.Namespace = c.cfg.Namespace
	}
	if j.ID == "" {
		j.ID, j.Made = c.makeID(j), true
	}
}

// idMaker is implemented by engines that make the IDs of jobs themselves.
type idMaker interface{ MakeID(j *Job) string }

func (c *Client) makeID(j *Job) string {
	if m, ok := c.engine.(idMaker); ok {
		return m.MakeID(j)
	}
	return MakeID(j)
}

// MakeID makes an ID for a job: a ULID that carries the shard of its order
// key, else of its merge key, so that jobs of one key share a shard. Whoever
// uses it for a job's first try sets Made.
func MakeID(j *Job) string {
	if key := j.ShardKey(); key != "" {
		return NewNumberIn(KeyPart(key)).String()
	}
	return NewNumber().String()
}

// Option sets a field of a pushed job; every one does what the [Job] field of
// its name says.
type Option func(*Job)

// ID names the job, so that it can be found, canceled, and not pushed twice.
func ID(id string) Option { return func(j *Job) { j.ID = id } }

// Delay lets the job be due in d.
func Delay(d time.Duration) Option { return func(j *Job) { j.Delay = d } }

// Due lets the job be due at t.
func Due(t time.Time) Option { return func(j *Job) { j.Due = t } }

// Priority is −1000…1000; higher goes first.
func Priority(n int) Option { return func(j *Job) { j.Priority = n } }

// Tries is how many deliveries may fail before the job is dead.
func Tries(n int) Option { return func(j *Job) { j.Tries = n } }

// MaxStalls is how many stalls the job survives, or None.
func MaxStalls(n int) Option { return func(j *Job) { j.MaxStalls = n } }

// Retry says how long the job waits after a failure: [Fixed], [Exponential] or
// [Staircase].
func Retry(b Backoff) Option { return func(j *Job) { j.Backoff = b } }

// TTL drops the job if it waits longer than d from now; None: never.
func TTL(d time.Duration) Option { return func(j *Job) { j.TTL = d } }

// Lease is how long a delivery holds the job unless it is extended.
func Lease(d time.Duration) Option { return func(j *Job) { j.Lease = d } }

// OrderKey runs the jobs of one key one at a time, in order.
func OrderKey(key string) Option { return func(j *Job) { j.OrderKey = key } }

// Keep merges the job into a waiting one with the same key, which stays as it
// is. An empty key merges equal bodies.
func Keep(key string) Option {
	return func(j *Job) { j.Merge = Merge{Key: key, Mode: MergeKeep} }
}

// Once is Keep that also holds the key while the job runs: at most one of them
// waits or runs.
func Once(key string) Option {
	return func(j *Job) { j.Merge = Merge{Key: key, Mode: MergeKeep, Until: UntilDone} }
}

// Replace lets the job take the place of a waiting one with the same key. With
// a Delay that is a debounce: maxWait bounds how long it can be put off; 0: no
// bound.
func Replace(key string, maxWait time.Duration) Option {
	return func(j *Job) { j.Merge = Merge{Key: key, Mode: MergeReplace, MaxWait: maxWait} }
}

// Header adds a header.
func Header(name, value string) Option {
	return func(j *Job) {
		if j.Headers == nil {
			j.Headers = map[string]string{}
		}
		j.Headers[name] = value
	}
}

// Callback lets a push queue send the job to a URL, or to a target:NAME.
func Callback(destination string) Option { return func(j *Job) { j.Callback = destination } }

// OnDone lets the dispatcher report the end of the job when it is done.
func OnDone(destination string) Option { return func(j *Job) { j.OnDone = destination } }

// OnDead lets the dispatcher report the end of the job when it is dead.
func OnDead(destination string) Option { return func(j *Job) { j.OnDead = destination } }

// Retain keeps the finished job and its result visible for d.
func Retain(d time.Duration) Option { return func(j *Job) { j.Retain = d } }
