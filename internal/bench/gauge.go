package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/dulymq/duly"
)

// Gauge reads what an engine costs the server that it keeps its jobs on. This
// package knows no engine: who calls Run makes a gauge for the kind of server
// that is behind it. Read, Watch and About are called by one goroutine at a
// time.
type Gauge interface {
	// About tells what the gauge reads.
	About() About
	// Read reads the server's counters.
	Read(ctx context.Context) (Reading, error)
	// Watch counts the requests that the server gets from now on, without those
	// of the gauge and without what runs inside scripts. The function that it
	// answers ends that and tells how many there were; it is called once.
	Watch(ctx context.Context) (stop func(context.Context) (int64, error), err error)
	// Native is the work of the phases push and take by the server's own
	// commands, batch jobs per command.
	Native(batch, body int) Native
	// Streams is the work of the phases publish and group by a stream of the server.
	Streams(batch, body int) Native
	// Close ends the gauge.
	Close()
}

// Cluster is a gauge that can read the nodes of its server one by one.
type Cluster interface {
	// Nodes lists the nodes that hold jobs.
	Nodes() []Node
	// Shards returns how many of a queue's shards each of the Nodes holds.
	Shards(ctx context.Context, q duly.QueueRef, shards int) ([]int, error)
}

// Node is one server of a cluster.
type Node struct {
	Name string
	// Read reads the counters of this node alone.
	Read func(ctx context.Context) (Reading, error)
}

// About is what a gauge tells of itself.
type About struct {
	Server string // its name and version, and how it keeps data
	// Resolution says how exactly the percentiles of scripts are known.
	Resolution string
	// NativePush and NativeTake are what the native work costs per job at most
	// where nothing else was running; 0: nobody knows.
	NativePush, NativeTake time.Duration
}

// Native stores jobs and takes them out again with the least that a server can
// do for that, and none of a queue's promises. Its methods may be called by
// several goroutines; each of Lanes has a connection of its own.
type Native interface {
	// Lanes is how many may work side by side, each with a number from 0.
	Lanes() int
	// Most is how many jobs one call takes.
	Most() int
	// Push stores n jobs.
	Push(ctx context.Context, lane, n int) error
	// Reserve takes up to n ready jobs and returns their numbers.
	Reserve(ctx context.Context, lane, n int) ([]string, error)
	// Ack removes reserved jobs.
	Ack(ctx context.Context, lane int, numbers []string) error
	// Remove removes what is left. It may be repeated.
	Remove(ctx context.Context) error
}

// Reading is what a server has used so far.
type Reading struct {
	CPU     time.Duration // of what runs its commands
	Memory  int64         // bytes in use
	Scripts Timings
}

// Timings is a distribution of calls' times as a server keeps it.
type Timings struct {
	Count int64
	Time  time.Duration // of all of them together
	// Within tells for some bounds how many calls took no longer.
	Within map[time.Duration]int64
}

// Plus is what two servers have used.
func (r Reading) Plus(other Reading) Reading {
	return Reading{CPU: r.CPU + other.CPU, Memory: r.Memory + other.Memory, Scripts: r.Scripts.Plus(other.Scripts)}
}

// since is what was used after another reading.
func (r Reading) since(before Reading) (Reading, error) {
	d := Reading{CPU: r.CPU - before.CPU, Memory: r.Memory - before.Memory, Scripts: r.Scripts.minus(before.Scripts)}
	if d.CPU < 0 || d.Scripts.Count < 0 {
		return d, errors.New("the server's counters went back: it was restarted, or somebody has reset them")
	}
	return d, nil
}

func (c Timings) minus(before Timings) Timings {
	return c.with(before, -1)
}

// Plus is two distributions together.
func (c Timings) Plus(other Timings) Timings {
	return c.with(other, 1)
}

// with adds or takes off another distribution. A server leaves out bounds
// that no call has reached: at a bound that only one of the two has, the
// other has what stands at its next smaller one.
func (c Timings) with(other Timings, sign int64) Timings {
	sum := Timings{Count: c.Count + sign*other.Count, Time: c.Time + time.Duration(sign)*other.Time, Within: map[time.Duration]int64{}}
	for _, from := range []Timings{c, other} {
		for bound := range from.Within {
			sum.Within[bound] = c.within(bound) + sign*other.within(bound)
		}
	}
	return sum
}

func (c Timings) within(bound time.Duration) int64 {
	for _, b := range slices.Backward(slices.Sorted(maps.Keys(c.Within))) {
		if b <= bound {
			return c.Within[b]
		}
	}
	return 0
}

// Percentile is the smallest bound that at least p % of the calls did not
// exceed; 0 if there are none.
func (c Timings) Percentile(p float64) time.Duration {
	rank := int64(math.Ceil(p / 100 * float64(c.Count)))
	bounds := slices.Sorted(maps.Keys(c.Within))
	for _, b := range bounds {
		if c.Count > 0 && c.Within[b] >= rank {
			return b
		}
	}
	if c.Count > 0 && len(bounds) > 0 {
		return bounds[len(bounds)-1]
	}
	return 0
}

// meter reads a gauge; without one it reads zeros.
type meter struct {
	gauge   Gauge
	counter func(context.Context) (Reading, error) // of the gauge, or of a node
	own     time.Duration                          // of the server's processor time, per reading
}

// readings is how often the meter reads to find out what that costs.
const readings = 20

func newMeter(ctx context.Context, g Gauge) (*meter, error) {
	if g == nil {
		return &meter{}, nil
	}
	m := &meter{gauge: g, counter: g.Read}
	return m, m.calibrate(ctx)
}

// calibrate finds out what a reading costs.
func (m *meter) calibrate(ctx context.Context) error {
	first, err := m.read(ctx)
	if err != nil {
		return err
	}
	last := first
	for range readings {
		if last, err = m.read(ctx); err != nil {
			return err
		}
	}
	spent, err := last.since(first)
	m.own = spent.CPU / readings
	return err
}

func (m *meter) read(ctx context.Context) (Reading, error) {
	if m.counter == nil {
		return Reading{}, nil
	}
	r, err := m.counter(ctx)
	if err != nil {
		return r, fmt.Errorf("reading what the server has used: %w", err)
	}
	return r, nil
}

// since is what the server has used after a reading, without what reading
// costs.
func (m *meter) since(ctx context.Context, before Reading) (Reading, error) {
	after, err := m.read(ctx)
	if err != nil {
		return Reading{}, err
	}
	spent, err := after.since(before)
	spent.CPU = max(0, spent.CPU-m.own)
	return spent, err
}

const (
	// calmEvery and calmTime are how often and for how long memory is read until
	// it no longer falls: what calls have needed is given back little by little.
	calmEvery = 250 * time.Millisecond
	calmTime  = 5 * time.Second
	calmBytes = 64 << 10
)

// memory is the server's memory in use once it has come to rest.
func (b *bench) memory(ctx context.Context) (int64, error) {
	now, err := b.meter.read(ctx)
	for until := b.clock.Mono() + calmTime; err == nil && b.meter.gauge != nil && b.clock.Mono() < until; {
		pause(ctx, b.clock, calmEvery)
		last := now
		if now, err = b.meter.read(ctx); err == nil && last.Memory-now.Memory < calmBytes {
			break
		}
	}
	return now.Memory, errors.Join(err, ctx.Err())
}
