package enginetest

import (
	"context"
	"hash/crc32"
	"slices"
	"sync"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// sharded is an engine whose queues have several shards, as a test sees it
// that thinks of one.
//
// The key of a job decides its shard, and its ID has to say the same (C6.18),
// which no test thinks of: so a job with a key goes out under an ID that is
// made for it, and the test is told its own. A limit is multiplied, so that
// the part of each shard is what the test has set.
//
// Order and limits hold within a shard. A test that judges them has its jobs
// in one (together): their IDs and keys are given a form of which all have the
// same shard byte. Only a job that merges by its body stays where that says.
type sharded struct {
	contract.Engine
	shards int
	*forms
}

// forms are what a test's IDs and keys are to the engine.
type forms struct {
	together bool
	lot      byte // the shard byte of them all, together
	mu       sync.Mutex
	ids      map[namedJob]string
	keys     map[string]string
	names    map[string]string // by form
}

type namedJob struct {
	ref duly.QueueRef
	id  string
}

// overShards lets a harness's engine be seen by that test as if it had one
// shard per queue.
func overShards(h *Harness, o Options, test string) {
	h.Shards = o.Shards
	f := &forms{
		together: o.OneShard, lot: byte(crc32.ChecksumIEEE([]byte(test))),
		ids: map[namedJob]string{}, keys: map[string]string{}, names: map[string]string{},
	}
	h.Engine = &sharded{h.Engine, o.Shards, f}
	if in := h.In; in != nil {
		h.In = func(namespace string) contract.Engine { return &sharded{in(namespace), o.Shards, f} }
	}
}

// Survey implements contract.Surveyor.
func (s *sharded) Survey(ctx context.Context, namespace string, p duly.PageParams) (contract.SurveyPage, error) {
	page, err := contract.SurveyorOf(s.Engine).Survey(ctx, namespace, p)
	for i := range page.Queues {
		q := &page.Queues[i]
		c, err := s.Engine.Config(ctx, duly.QueueRef{Namespace: namespace, Name: q.Name})
		if q.Err != nil || err != nil || c.Shards != s.shards {
			continue
		}

		c.Paused, c.MaxLeased, c.Rate = q.Throttle.Paused, q.Throttle.MaxLeased, q.Throttle.Rate
		s.divide(&c)
		q.Throttle = contract.ThrottleOf(c)
	}
	return page, err
}

// WatchCancels implements contract.CancelWatcher.
func (s *sharded) WatchCancels(ctx context.Context, namespace string, w contract.CancelWatch) error {
	watcher, ok := s.Engine.(contract.CancelWatcher)
	if !ok {
		return contract.Errorf(duly.CodeUnsupported, "the engine does not report canceled jobs")
	}

	report := w.Canceled
	w.Canceled = func(c contract.Canceled) {
		c.IDs = slices.Clone(c.IDs)
		for i, id := range c.IDs {
			c.IDs[i] = s.told(id)
		}
		report(c)
	}
	return watcher.WatchCancels(ctx, namespace, w)
}

// Pass implements contract.Passer.
func (s *sharded) Pass(ctx context.Context, namespace string, queues []string) {
	contract.PasserOf(s.Engine).Pass(ctx, namespace, queues)
}

// key is a key with two characters behind it that make its shard byte; it sorts
// among the others as before. What has no room for them stays as it is.
func (f *forms) key(key string) string {
	if !f.together || key == "" || len(key) > duly.MaxKey-2 {
		return key
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.keys[key] == "" {
		f.keys[key] = keyOfLot(key, f.lot)
		f.names[f.keys[key]] = key
	}
	return f.keys[key]
}

// keyOfLot is a key that begins with this one and has that shard byte.
func keyOfLot(key string, lot byte) string {
	const letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for _, a := range letters {
		for _, b := range letters {
			if form := key + string(a) + string(b); crcByte(form) == lot {
				return form
			}
		}
	}
	panic("enginetest: no key with the shard byte that begins with " + key)
}

func crcByte(key string) byte { return byte(crc32.ChecksumIEEE([]byte(key))) }

// shardByte is the place of the byte of a ULID that its shard is read from.
const shardByte = 11

// job gives a job to push its form.
func (f *forms) job(j *duly.Job) {
	j.OrderKey, j.Merge.Key = f.key(j.OrderKey), f.key(j.Merge.Key)
	ref := duly.QueueRef{Namespace: j.Namespace, Name: j.Queue}.Normal()
	switch keyed := j.OrderKey != "" || j.Merge.Set(); {
	case j.ID != "" && contract.ValidateID(j.ID) != nil:
	case keyed:
		number, _ := duly.ParseNumber(duly.MakeID(j))
		j.ID, j.Made = f.id(ref, j.ID, number), j.Made && isNumber(j.ID)
	case f.together && j.ID == "":
		j.ID, j.Made = f.id(ref, "", f.number()), true
	default:
		j.ID, j.Made = f.known(ref, j.ID), j.Made && isNumber(j.ID)
	}
}

func isNumber(id string) bool {
	_, ok := duly.ParseNumber(id)
	return ok
}

// number is a new one with the shard byte that all have.
func (f *forms) number() duly.Number {
	n := duly.NewNumber()
	n[shardByte] = f.lot
	return n
}

// known is an ID's form, given to it now if it has none.
func (f *forms) known(ref duly.QueueRef, id string) string {
	if id == "" || contract.ValidateID(id) != nil {
		return id
	}
	f.mu.Lock()
	form, ok := f.ids[namedJob{ref.Normal(), id}]
	f.mu.Unlock()
	switch {
	case ok:
		return form
	case f.together:
		return f.id(ref, id, f.number())
	}
	return id
}

// id gives an ID a form with the shard byte of a number. One that is a number
// keeps its place among the others.
func (f *forms) id(ref duly.QueueRef, id string, made duly.Number) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := namedJob{ref.Normal(), id}
	if was, ok := duly.ParseNumber(f.ids[name]); ok && was[shardByte] == made[shardByte] {
		return f.ids[name]
	}
	if own, ok := duly.ParseNumber(id); ok {
		own[shardByte] = made[shardByte]
		made = own
	}
	form := made.String()
	if id == "" { // it was left to the engine, which tells it
		name.id, id = form, form
	}
	f.ids[name], f.names[form] = form, id
	return form
}

// told is what the test calls an ID or a key.
func (f *forms) told(form string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if name, ok := f.names[form]; ok {
		return name
	}
	return form
}

func (f *forms) toldJob(j *duly.Job) {
	j.ID, j.OrderKey, j.Merge.Key = f.told(j.ID), f.told(j.OrderKey), f.told(j.Merge.Key)
}

// Push implements duly.Engine.
func (e *sharded) Push(ctx context.Context, jobs []duly.Job) ([]duly.PushResult, error) {
	given := jobs
	jobs = slices.Clone(jobs)
	for i := range jobs {
		if e.job(&jobs[i]); given[i].ID == "" && jobs[i].ID != "" {
			jobs[i].Made = true
		}
	}
	results, err := e.Engine.Push(ctx, jobs)
	for i := range results {
		results[i].ID = e.told(results[i].ID)
		if given[i].ID == "" && results[i].Err != nil && results[i].ID == jobs[i].ID {
			results[i].ID = ""
		}
	}
	return results, err
}

// Reserve implements duly.Engine.
func (e *sharded) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	ds, err := e.Engine.Reserve(ctx, p)
	for i := range ds {
		e.toldJob(&ds[i].Job)
	}
	return ds, err
}

// Get implements contract.Inspector.
func (e *sharded) Get(ctx context.Context, q duly.QueueRef, id string) (duly.JobInfo, error) {
	info, err := e.Engine.Get(ctx, q, e.known(q, id))
	e.toldJob(&info.Job)
	return info, err
}

// GetByReceipt implements contract.Inspector.
func (e *sharded) GetByReceipt(ctx context.Context, namespace string, r duly.Receipt) (duly.JobInfo, error) {
	info, err := e.Engine.GetByReceipt(ctx, namespace, r)
	e.toldJob(&info.Job)
	return info, err
}

// Peek implements contract.Inspector.
func (e *sharded) Peek(ctx context.Context, q duly.QueueRef) (duly.JobInfo, error) {
	info, err := e.Engine.Peek(ctx, q)
	e.toldJob(&info.Job)
	return info, err
}

// List implements contract.Inspector.
func (e *sharded) List(ctx context.Context, q duly.QueueRef, p duly.ListParams) (duly.ListPage, error) {
	page, err := e.Engine.List(ctx, q, p)
	for i := range page.Jobs {
		e.toldJob(&page.Jobs[i].Job)
	}
	return page, err
}

// Config implements contract.Inspector.
func (e *sharded) Config(ctx context.Context, q duly.QueueRef) (duly.QueueConfig, error) {
	c, err := e.Engine.Config(ctx, q)
	if c.Shards != e.shards {
		return c, err // the test itself has chosen
	}
	e.divide(&c)
	return c, err
}

// divide makes the limits of a queue those that the test has set.
func (e *sharded) divide(c *duly.QueueConfig) {
	for _, limit := range []*int{&c.MaxJobs, &c.MaxLeased, &c.DeadCount, &c.Rate.Burst} {
		if *limit != duly.None && *limit != duly.DefaultDeadCount {
			*limit /= e.shards
		}
	}
	if c.Rate.Limited() {
		c.Rate.PerSecond /= float64(e.shards)
	}
}

// Configure implements contract.Operator.
func (e *sharded) Configure(ctx context.Context, q duly.QueueRef, patch duly.QueueConfig) error {
	if now, err := e.Config(ctx, q); err == nil && patch.Rate.Limited() {
		now.Shards = 1
		patch.Rate.Burst = contract.PatchConfig(now, patch).Rate.Burst // by the rate that the test has set
	}
	for _, limit := range []*int{&patch.MaxJobs, &patch.MaxLeased, &patch.DeadCount} {
		if *limit > 0 && *limit <= duly.MaxJobsBound/e.shards {
			*limit *= e.shards
		}
	}
	if patch.Rate.Burst <= duly.MaxBurst/e.shards {
		patch.Rate.Burst *= e.shards
	}
	if patch.Rate.PerSecond > 0 {
		patch.Rate.PerSecond *= float64(e.shards)
	}
	return e.Engine.Configure(ctx, q, patch)
}

// Delete implements contract.Operator.
func (e *sharded) Delete(ctx context.Context, q duly.QueueRef, id string) error {
	return e.Engine.Delete(ctx, q, e.known(q, id))
}

// Update implements contract.Operator.
func (e *sharded) Update(ctx context.Context, q duly.QueueRef, id string, u duly.Update) error {
	return e.Engine.Update(ctx, q, e.known(q, id), u)
}

// Promote implements contract.Operator.
func (e *sharded) Promote(ctx context.Context, q duly.QueueRef, id string) error {
	return e.Engine.Promote(ctx, q, e.known(q, id))
}

// Requeue implements contract.Operator.
func (e *sharded) Requeue(ctx context.Context, q duly.QueueRef, p duly.RequeueParams) ([]duly.RequeueResult, error) {
	p.IDs = slices.Clone(p.IDs)
	for i, id := range p.IDs {
		p.IDs[i] = e.known(q, id)
	}
	results, err := e.Engine.Requeue(ctx, q, p)
	for i := range results {
		results[i].ID, results[i].Merged = e.told(results[i].ID), e.told(results[i].Merged)
	}
	return results, err
}
