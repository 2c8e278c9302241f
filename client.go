package duly

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"
)

// Client pushes jobs and publishes messages. It makes a job's ID before the first
// try, and repeats a push whose answer was lost. So a job exists once, however
// often the connection breaks. It is safe for concurrent use. The zero value is
// not usable: call [NewClient].
type Client struct {
	engine Engine
	cfg    ClientConfig
	dedupe windowCache
}

// ClientConfig configures a Client. Its zero value works.
type ClientConfig struct {
	// Namespace is the namespace of jobs that name none. Default: that of the engine, see
	// [NamespaceOf].
	Namespace string
	// Repeats is the number of times that the client repeats a push, or the jobs of a push, that
	// failed with [ErrUnavailable] or [ErrNotDurable], while the context allows. Default 3. None
	// means that it never repeats.
	Repeats int
	// Pause is the wait before the first repeat. Each further one waits twice as long.
	// Default 100 ms.
	Pause time.Duration
	// Clock is for tests. Default: [SystemClock].
	Clock Clock
}

// NewClient returns a Client of an engine. The caller closes the engine when no
// client uses it any more.
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

// Engine returns the engine of the client.
func (c *Client) Engine() Engine { return c.engine }

// Queue names a queue of the client's namespace.
func (c *Client) Queue(name string) QueueRef { return QueueRef{c.cfg.Namespace, name} }

// Push pushes one job. The result has the job's ID, and says whether the job was
// created, merged, or exists already. For bad input Push returns [ErrInvalid],
// which names the field.
func (c *Client) Push(ctx context.Context, queue string, body []byte, opts ...Option) (PushResult, error) {
	return c.pushOne(ctx, newJob(queue, body, opts))
}

// newJob returns a job with its options.
func newJob(queue string, body []byte, opts []Option) Job {
	j := Job{Queue: queue, Body: body}
	for _, opt := range opts {
		opt(&j)
	}
	return j
}

// pushOne pushes one job. It returns the error of the job as well as that of the call.
func (c *Client) pushOne(ctx context.Context, j Job) (PushResult, error) {
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

// PushMany pushes up to [MaxBatch] jobs in one call. It returns a result for each, in order, and
// fills in the jobs' IDs. The returned error applies to the whole call, after which some of the
// jobs may be stored. Pushing all of them again with these IDs is safe, and so is pushing jobs
// again whose results are [ErrUnavailable] or [ErrNotDurable].
func (c *Client) PushMany(ctx context.Context, jobs []Job) ([]PushResult, error) {
	for i := range jobs {
		// IDs are set before the first try, so that a repeat cannot double a job.
		c.complete(&jobs[i])
	}

	results, err := c.push(ctx, jobs)
	pause := c.cfg.Pause
	for range c.cfg.Repeats {
		failed := func(r PushResult) bool { return worthRepeat(r.Err) }
		if !worthRepeat(err) && !slices.ContainsFunc(results, failed) {
			break
		}
		if sleep(ctx, c.cfg.Clock, pause) != nil {
			break // the error of the push has more information than that of the context
		}
		pause *= 2

		// A call without an error has results, and only its failed jobs go again.
		if err != nil {
			results, err = c.push(ctx, jobs)
		} else {
			c.pushFailed(ctx, jobs, results)
		}
	}
	return results, err
}

// push makes one try. After this try the jobs may be stored, so every further try by the client or
// its caller is a repeat.
func (c *Client) push(ctx context.Context, jobs []Job) ([]PushResult, error) {
	results, err := c.engine.Push(ctx, jobs)
	for i := range jobs {
		jobs[i].Made = false
	}
	return results, err
}

// pushFailed pushes the jobs again whose results are worth a repeat, and stores the
// new results.
func (c *Client) pushFailed(ctx context.Context, jobs []Job, results []PushResult) {
	var failed []Job
	var indexes []int
	for i, r := range results {
		if worthRepeat(r.Err) {
			failed, indexes = append(failed, jobs[i]), append(indexes, i)
		}
	}

	again, err := c.push(ctx, failed)
	for k, i := range indexes {
		if err != nil {
			// The job may be stored, so its result keeps the ID.
			results[i].Err = err
			continue
		}
		results[i] = again[k]
	}
}

// worthRepeat reports whether a repeat may succeed after this error.
func worthRepeat(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrNotDurable)
}

// Cancel deletes a job in any state. It returns [ErrNotFound] if the job does not exist.
func (c *Client) Cancel(ctx context.Context, queue, id string) error {
	return c.engine.Delete(ctx, c.Queue(queue), id)
}

// complete fills in the namespace and the ID of a job.
func (c *Client) complete(j *Job) {
	if j.Namespace == "" {
		j.Namespace = c.cfg.Namespace
	}
	// The caller may have pushed an ID of its own before, so Made is set only for an ID that is
	// created here.
	if j.ID == "" {
		j.ID, j.Made = c.makeID(j), true
	}
}

// idMaker is implemented by engines that make the IDs of jobs themselves.
type idMaker interface{ MakeID(j *Job) string }

func (c *Client) makeID(j *Job) string {
	if m, ok := c.engine.(idMaker); ok {
		// The engine chooses the shard, so that it can store jobs together.
		return m.MakeID(j)
	}
	return MakeID(j)
}

// MakeID returns an ID for a job: a ULID that contains the shard of the job's order key, or else of
// its merge key, so that jobs of one key share a shard. A caller that uses it for the first try of
// a job sets Made.
func MakeID(j *Job) string {
	if key := j.ShardKey(); key != "" {
		return NewNumberIn(KeyPart(key)).String()
	}
	return NewNumber().String()
}
