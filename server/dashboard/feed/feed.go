// Package feed looks at the queues that people see, once for all of them.
//
// A namespace is looked at while it has viewers, at most once per second, and for at most a tenth of the time. Each
// look goes to every viewer. A viewer that is slow gets the newest one. A page takes the newest look, or makes one.
package feed

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

const (
	// every is the time between two looks.
	every = time.Second
	// share is the part of the time that looks may take: one of share parts.
	share = 10
	// maxQueues is the number of queues of a look.
	maxQueues = 1000
)

// Look is what one look has found.
type Look struct {
	// At is the time of the look, on the server's clock.
	At time.Time
	// Mono is the monotonic time of the look.
	Mono   time.Duration
	Queues []contract.QueueStats
	// Next is set if the namespace has more queues than a look.
	Next string
	// Err is why the look has found nothing.
	Err error
}

// Feed looks at namespaces. It is safe for concurrent use.
type Feed struct {
	Surveyor contract.Surveyor
	Clock    duly.Clock
	// Seen, if set, is called with every look before anybody else gets it.
	Seen func(namespace string, look *Look)

	mu         sync.Mutex
	namespaces map[string]*namespace
	// single are the looks of pages, by namespace.
	single map[string]*single
}

// single is a look that no viewer waits for. Its look is an error until it has ended, also after a panic.
type single struct {
	once  sync.Once
	begin time.Duration
	ended atomic.Bool
	look  *Look
}

// over reports whether the look is too old for another page.
func (s *single) over(now time.Duration) bool { return s.ended.Load() && now-s.begin >= every }

// namespace is one that has viewers.
type namespace struct {
	viewers map[*Viewer]bool
	// last is the newest look, nil before the first one.
	last *Look
	stop context.CancelFunc
}

// Viewer receives the looks at one namespace.
type Viewer struct {
	feed *Feed
	name string
	// looks has room for one look.
	looks chan *Look
}

// Watch returns a viewer of a namespace. The caller must close it.
func (f *Feed) Watch(name string) *Viewer {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := &Viewer{feed: f, name: name, looks: make(chan *Look, 1)}
	n := f.namespaces[name]
	if n == nil {
		ctx, stop := context.WithCancel(context.Background())
		n = &namespace{viewers: map[*Viewer]bool{}, stop: stop}
		if f.namespaces == nil {
			f.namespaces = map[string]*namespace{}
		}
		f.namespaces[name] = n
		go f.run(ctx, name, n)
	}

	n.viewers[v] = true
	if n.last != nil {
		v.looks <- n.last
	}
	return v
}

// Looks returns the channel of the looks.
func (v *Viewer) Looks() <-chan *Look { return v.looks }

// Close ends the viewer. After the last one, nothing looks at the namespace.
func (v *Viewer) Close() {
	f := v.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.namespaces[v.name]
	if n == nil || !n.viewers[v] {
		return
	}
	delete(n.viewers, v)
	if len(n.viewers) == 0 {
		delete(f.namespaces, v.name)
		n.stop()
	}
}

// run looks until ctx ends.
func (f *Feed) run(ctx context.Context, name string, n *namespace) {
	for {
		begin := f.Clock.Mono()
		look := f.look(ctx, name)
		if ctx.Err() != nil {
			return
		}
		f.publish(n, look)

		// A slow engine is asked less often.
		took := f.Clock.Mono() - begin
		timer := f.Clock.NewTimer(max(every, (share-1)*took))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// look looks at a namespace.
func (f *Feed) look(ctx context.Context, name string) *Look {
	look := &Look{At: f.Clock.Now(), Mono: f.Clock.Mono()}
	page, err := f.Surveyor.Survey(ctx, name, duly.PageParams{Limit: maxQueues})
	look.Queues, look.Next, look.Err = page.Queues, page.Next, err
	if f.Seen != nil && ctx.Err() == nil {
		f.Seen(name, look)
	}
	return look
}

// Look returns a look that is about a second old at most. All callers within a second share one.
func (f *Feed) Look(ctx context.Context, name string) *Look {
	now := f.Clock.Mono()
	f.mu.Lock()
	if n := f.namespaces[name]; n != nil && n.last != nil && now-n.last.Mono < 2*every {
		last := n.last
		f.mu.Unlock()
		return last
	}
	s := f.single[name]
	if s == nil || s.over(now) {
		maps.DeleteFunc(f.single, func(_ string, s *single) bool { return s.over(now) })
		s = &single{begin: now, look: &Look{At: f.Clock.Now(), Mono: now, Err: duly.ErrInternal}}
		if f.single == nil {
			f.single = map[string]*single{}
		}
		f.single[name] = s
	}
	f.mu.Unlock()

	// Callers may wait for the look when the first one is gone.
	s.once.Do(func() {
		defer s.ended.Store(true)
		s.look = f.look(context.WithoutCancel(ctx), name)
	})
	return s.look
}

func (f *Feed) publish(n *namespace, look *Look) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n.last = look
	for v := range n.viewers {
		// The viewer may not have taken the last look, which the new one replaces.
		select {
		case <-v.looks:
		default:
		}
		v.looks <- look
	}
}
