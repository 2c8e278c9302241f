package enginetest

import (
	"cmp"
	"context"
	"hash/crc32"
	"slices"
	"strings"
	"sync"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// sharded wraps an engine so that queues get several shards, while a test sees them as one.
//
// A job's key decides its shard, and its ID has to fall into the same shard (C6.18). Tests choose
// IDs without that rule in mind. So a job with a key is pushed with an alias for its ID, and the
// test sees its own ID again. Limits are multiplied, so that each shard's part is the limit of the
// test.
//
// Order and limits hold within a shard. A test that checks them puts all its jobs into one shard
// (together). All of its IDs and keys get aliases with the same shard byte. Only a job that merges
// by its body stays in the shard of the body.
type sharded struct {
	contract.Engine
	shards int
	*aliases
}

// aliases maps a test's IDs and keys to their aliases in the engine.
type aliases struct {
	together bool
	common   byte // shard byte of all aliases, if the jobs must be in one shard
	mu       sync.Mutex
	ids      map[namedJob]string
	keys     map[string]string
	names    map[string]string // names by their aliases
}

type namedJob struct {
	ref duly.QueueRef
	id  string
}

// overShards wraps the harness's engine so that queues get several shards and the test sees one.
func overShards(h *Harness, o Options, test string) {
	h.Shards = o.Shards
	f := &aliases{
		together: o.OneShard, common: byte(crc32.ChecksumIEEE([]byte(test))),
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

		// The throttle shows the multiplied limits, so they are converted as in Config.
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
		// The same list may go to several watchers, so it must not be changed.
		c.IDs = slices.Clone(c.IDs)
		for i, id := range c.IDs {
			c.IDs[i] = s.original(id)
		}
		report(c)
	}
	return watcher.WatchCancels(ctx, namespace, w)
}

// Pass implements contract.Passer.
func (s *sharded) Pass(ctx context.Context, namespace string, queues []string) {
	contract.PasserOf(s.Engine).Pass(ctx, namespace, queues)
}

// key returns the alias of a key: the key and two characters that give it the shard byte. Aliases
// sort like the keys. A key without room for two more characters is its own alias.
func (f *aliases) key(key string) string {
	if !f.together || key == "" || len(key) > duly.MaxKey-2 {
		return key
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.keys[key] == "" {
		f.keys[key] = keyWithByte(key, f.common)
		f.names[f.keys[key]] = key
	}
	return f.keys[key]
}

// keyWithByte returns a key that begins with the given one and has the shard byte common.
func keyWithByte(key string, common byte) string {
	const letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for _, a := range letters {
		for _, b := range letters {
			if alias := key + string(a) + string(b); crcByte(alias) == common {
				return alias
			}
		}
	}
	panic("enginetest: found no key with the shard byte and the prefix " + key)
}

func crcByte(key string) byte { return byte(crc32.ChecksumIEEE([]byte(key))) }

// shardByte is the index of the byte of a ULID that decides the shard.
const shardByte = 11

// job replaces the ID and the keys of a job to push by aliases.
func (f *aliases) job(j *duly.Job) {
	j.OrderKey, j.Merge.Key = f.key(j.OrderKey), f.key(j.Merge.Key)
	ref := duly.QueueRef{Namespace: j.Namespace, Name: j.Queue}.Normal()
	switch keyed := j.OrderKey != "" || j.Merge.Set(); {
	// An invalid ID is not replaced, because the engine must refuse it.
	case j.ID != "" && contract.ValidateID(j.ID) != nil:
	// The ID has to fall into the shard of the key.
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

// number returns a new number with the common shard byte.
func (f *aliases) number() duly.Number {
	n := duly.NewNumber()
	n[shardByte] = f.common
	return n
}

// known returns the alias of an ID. It creates one if the jobs of the test share a shard.
func (f *aliases) known(ref duly.QueueRef, id string) string {
	if id == "" || contract.ValidateID(id) != nil {
		return id
	}
	f.mu.Lock()
	alias, ok := f.ids[namedJob{ref.Normal(), id}]
	f.mu.Unlock()
	switch {
	case ok:
		return alias
	case f.together:
		return f.id(ref, id, f.number())
	}
	return id
}

// id returns an alias of a job ID. The alias is a number in the same shard as the number made.
// If the ID is a number, its alias sorts like the ID.
func (f *aliases) id(ref duly.QueueRef, id string, made duly.Number) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := namedJob{ref.Normal(), id}
	// The ID has an alias in this shard already.
	if was, ok := duly.ParseNumber(f.ids[name]); ok && was[shardByte] == made[shardByte] {
		return f.ids[name]
	}
	if own, ok := duly.ParseNumber(id); ok {
		own[shardByte] = made[shardByte]
		made = own
	}
	alias := made.String()
	// The test learns the ID from the engine.
	if id == "" {
		name.id, id = alias, alias
	}
	f.ids[name], f.names[alias] = alias, id
	return alias
}

// original returns the test's name of an alias.
func (f *aliases) original(alias string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if name, ok := f.names[alias]; ok {
		return name
	}
	return alias
}

func (f *aliases) restoreJob(j *duly.Job) {
	j.ID, j.OrderKey, j.Merge.Key = f.original(j.ID), f.original(j.OrderKey), f.original(j.Merge.Key)
}

// Push implements duly.Engine.
func (e *sharded) Push(ctx context.Context, jobs []duly.Job) ([]duly.PushResult, error) {
	given := jobs
	jobs = slices.Clone(jobs)
	for i := range jobs {
		// An ID that was created here is new, so the push must set Made.
		if e.job(&jobs[i]); given[i].ID == "" && jobs[i].ID != "" {
			jobs[i].Made = true
		}
	}
	results, err := e.Engine.Push(ctx, jobs)
	for i := range results {
		results[i].ID = e.original(results[i].ID)
		// If the job had no ID and is refused, the test expects no ID in the result.
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
		e.restoreJob(&ds[i].Job)
	}
	return ds, err
}

// Get implements contract.Inspector.
func (e *sharded) Get(ctx context.Context, q duly.QueueRef, id string) (duly.JobInfo, error) {
	info, err := e.Engine.Get(ctx, q, e.known(q, id))
	e.restoreJob(&info.Job)
	return info, err
}

// Find implements contract.Finder. The ID may have another alias in each queue, so the jobs of all
// aliases are found, and each job is kept whose alias is that of its queue.
func (e *sharded) Find(ctx context.Context, namespace, id string) (found contract.Found, err error) {
	for _, alias := range e.aliasesOf(namespace, id) {
		some, failed := contract.FinderOf(e.Engine).Find(ctx, namespace, alias)
		if failed != nil {
			err = failed
			continue
		}
		for _, j := range some.Jobs {
			if e.known(duly.QueueRef{Namespace: namespace, Name: j.Queue}, id) == j.ID {
				e.restoreJob(&j.Job)
				found.Jobs = append(found.Jobs, j)
			}
		}
		found.More = found.More || some.More
	}

	if len(found.Jobs) == 0 {
		return contract.Found{}, cmp.Or(err, error(contract.NowhereFound(namespace, id)))
	}
	slices.SortFunc(found.Jobs, func(a, b duly.JobInfo) int { return strings.Compare(a.Queue, b.Queue) })
	// The bound is for the jobs of all aliases together.
	if n := len(found.Jobs); n > contract.MaxFound {
		found.Jobs, found.More = found.Jobs[:contract.MaxFound], true
	}
	return found, nil
}

// Explain implements contract.Explainer.
func (e *sharded) Explain(ctx context.Context, q duly.QueueRef, id string) (contract.Explanation, error) {
	x, err := contract.ExplainerOf(e.Engine).Explain(ctx, q, e.known(q, id))
	for i := range x.Facts {
		x.Facts[i].Holder.ID = e.original(x.Facts[i].Holder.ID)
	}
	return x, err
}

// Keys implements contract.KeyLister. A longer prefix than a key may match the alias of the key, so such keys
// are left out.
func (e *sharded) Keys(ctx context.Context, q duly.QueueRef, p contract.KeysParams) (contract.KeyPage, error) {
	page, err := contract.KeyListerOf(e.Engine).Keys(ctx, q, p)
	for i := range page.Keys {
		e.restoreKey(&page.Keys[i])
	}
	page.Keys = slices.DeleteFunc(page.Keys, func(k contract.KeyInfo) bool { return !strings.HasPrefix(k.Key, p.Prefix) })
	return page, err
}

// Holder implements contract.KeyLister.
func (e *sharded) Holder(ctx context.Context, q duly.QueueRef, key string) (contract.KeyInfo, error) {
	info, err := contract.KeyListerOf(e.Engine).Holder(ctx, q, e.key(key))
	e.restoreKey(&info)
	return info, err
}

func (f *aliases) restoreKey(k *contract.KeyInfo) {
	k.Key, k.Head.ID = f.original(k.Key), f.original(k.Head.ID)
}

// aliasesOf returns an ID and its aliases in all queues of a namespace.
func (f *aliases) aliasesOf(namespace, id string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := []string{id}
	for name, alias := range f.ids {
		if name.id == id && name.ref.Namespace == contract.NamespaceOr(namespace) && alias != id {
			all = append(all, alias)
		}
	}
	return all
}

// GetJobs implements contract.Inspector.
func (e *sharded) GetJobs(
	ctx context.Context, q duly.QueueRef, ids []string, bodies bool,
) ([]contract.JobResult, error) {
	results, err := e.Engine.GetJobs(ctx, q, e.knownAll(q, ids), bodies)
	for i := range results {
		e.restoreJob(&results[i].Info.Job)
	}
	return results, err
}

// GetByReceipt implements contract.Inspector.
func (e *sharded) GetByReceipt(ctx context.Context, namespace string, r duly.Receipt) (duly.JobInfo, error) {
	info, err := e.Engine.GetByReceipt(ctx, namespace, r)
	e.restoreJob(&info.Job)
	return info, err
}

// Peek implements contract.Inspector.
func (e *sharded) Peek(ctx context.Context, q duly.QueueRef) (duly.JobInfo, error) {
	info, err := e.Engine.Peek(ctx, q)
	e.restoreJob(&info.Job)
	return info, err
}

// List implements contract.Inspector.
func (e *sharded) List(ctx context.Context, q duly.QueueRef, p duly.ListParams) (duly.ListPage, error) {
	p.Key = e.key(p.Key)
	page, err := e.Engine.List(ctx, q, p)
	for i := range page.Jobs {
		e.restoreJob(&page.Jobs[i].Job)
	}
	return page, err
}

// Config implements contract.Inspector.
func (e *sharded) Config(ctx context.Context, q duly.QueueRef) (duly.QueueConfig, error) {
	c, err := e.Engine.Config(ctx, q)
	if c.Shards != e.shards {
		// The test has configured the shards itself, so it expects the real limits.
		return c, err
	}
	e.divide(&c)
	return c, err
}

// divide converts the stored limits of a queue to those that the test has set.
func (e *sharded) divide(c *duly.QueueConfig) {
	for _, limit := range []*int{&c.MaxJobs, &c.MaxLeased, &c.DeadCount, &c.Rate.Burst} {
		// A default was not multiplied.
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
		// The default burst depends on the rate that the test has set, not on the multiplied
		// rate.
		patch.Rate.Burst = contract.PatchConfig(now, patch).Rate.Burst
	}
	for _, limit := range []*int{&patch.MaxJobs, &patch.MaxLeased, &patch.DeadCount} {
		// An invalid limit is not multiplied, because the engine must refuse it.
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

// DeleteJobs implements contract.Operator.
func (e *sharded) DeleteJobs(
	ctx context.Context, q duly.QueueRef, ids []string, state duly.State,
) ([]error, error) {
	return e.Engine.DeleteJobs(ctx, q, e.knownAll(q, ids), state)
}

func (e *sharded) knownAll(q duly.QueueRef, ids []string) []string {
	known := make([]string, len(ids))
	for i, id := range ids {
		known[i] = e.known(q, id)
	}
	return known
}

// PromoteJobs implements contract.Operator.
func (e *sharded) PromoteJobs(ctx context.Context, q duly.QueueRef, ids []string) ([]error, error) {
	return e.Engine.PromoteJobs(ctx, q, e.knownAll(q, ids))
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
		results[i].ID, results[i].Merged = e.original(results[i].ID), e.original(results[i].Merged)
	}
	return results, err
}
