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

// Gauge reads what an engine costs the server that stores its jobs. This package knows no engine:
// the caller of Run provides the gauge. Read, Watch and About are called by one goroutine at a
// time.
type Gauge interface {
	// About describes the gauge.
	About() About
	// Read reads the server's counters.
	Read(ctx context.Context) (Reading, error)
	// Watch counts the requests to the server from now on, without those of the gauge and without
	// commands in scripts. The returned function ends the count and returns the number. It must be
	// called once.
	Watch(ctx context.Context) (stop func(context.Context) (int64, error), err error)
	// Native does the work of the phases push and take with the server's commands, batch jobs per
	// command.
	Native(batch, body int) Native
	// Streams does the work of the phases publish and group with a stream of the server.
	Streams(batch, body int) Native
	// Close closes the gauge.
	Close()
}

// Cluster is a gauge that can read the nodes of its server separately.
type Cluster interface {
	// Nodes returns the nodes that store jobs.
	Nodes() []Node
	// Shards returns the number of a queue's shards on each of the Nodes.
	Shards(ctx context.Context, q duly.QueueRef, shards int) ([]int, error)
}

// Node is one server of a cluster.
type Node struct {
	Name string
	// Read reads the counters of this node only.
	Read func(ctx context.Context) (Reading, error)
}

// About describes a gauge.
type About struct {
	Server string // name and version of the server, and how it keeps data
	// Resolution describes the precision of the scripts' percentiles.
	Resolution string
	// NativePush and NativeTake bound the native cost per job on an idle machine. 0 means
	// unknown.
	NativePush, NativeTake time.Duration
}

// Native stores and takes jobs with the fewest commands that a server needs for that, without the
// guarantees of a queue. Several goroutines may call its methods. Each lane, from 0 to Lanes, is a
// separate connection.
type Native interface {
	// Lanes returns how many goroutines may work concurrently, each with a number from 0.
	Lanes() int
	// Most returns the largest number of jobs in one call.
	Most() int
	// Push stores n jobs.
	Push(ctx context.Context, lane, n int) error
	// Reserve takes up to n ready jobs and returns their numbers.
	Reserve(ctx context.Context, lane, n int) ([]string, error)
	// Ack removes reserved jobs.
	Ack(ctx context.Context, lane int, numbers []string) error
	// Remove removes the remaining data. It may be called repeatedly.
	Remove(ctx context.Context) error
}

// Reading is the total usage of a server at one time.
type Reading struct {
	CPU     time.Duration // CPU time of the threads that run the server's commands
	Memory  int64         // memory in use, in bytes
	Scripts Timings
}

// Timings is a distribution of call durations as a server keeps it.
type Timings struct {
	Count int64
	Time  time.Duration // sum of the durations of all calls
	// Within has, for some bounds, the number of calls that took no longer.
	Within map[time.Duration]int64
}

// Plus returns the sum of two readings.
func (r Reading) Plus(other Reading) Reading {
	return Reading{CPU: r.CPU + other.CPU, Memory: r.Memory + other.Memory, Scripts: r.Scripts.Plus(other.Scripts)}
}

// since returns the difference from an earlier reading.
func (r Reading) since(before Reading) (Reading, error) {
	d := Reading{CPU: r.CPU - before.CPU, Memory: r.Memory - before.Memory, Scripts: r.Scripts.minus(before.Scripts)}
	if d.CPU < 0 || d.Scripts.Count < 0 {
		return d, errors.New("the server's counters went back: the server was restarted, or its statistics were reset")
	}
	return d, nil
}

func (c Timings) minus(before Timings) Timings {
	return c.with(before, -1)
}

// Plus returns the sum of two distributions.
func (c Timings) Plus(other Timings) Timings {
	return c.with(other, 1)
}

// with adds or subtracts another distribution. A server omits bounds that no call has reached. For
// such a bound, the value at the next smaller bound counts.
func (c Timings) with(other Timings, sign int64) Timings {
	sum := Timings{Count: c.Count + sign*other.Count, Time: c.Time + time.Duration(sign)*other.Time,
		Within: map[time.Duration]int64{}}

	// Each of the two may have bounds that the other does not have.
	for _, from := range []Timings{c, other} {
		for bound := range from.Within {
			sum.Within[bound] = c.within(bound) + sign*other.within(bound)
		}
	}
	return sum
}

func (c Timings) within(bound time.Duration) int64 {
	// The counts are cumulative, so a missing bound has the count of the next lower one.
	for _, b := range slices.Backward(slices.Sorted(maps.Keys(c.Within))) {
		if b <= bound {
			return c.Within[b]
		}
	}
	return 0
}

// Percentile returns the smallest bound that at least p % of the calls did not exceed, or 0
// without calls.
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

// meter reads a gauge. Without one it returns zeros.
type meter struct {
	gauge   Gauge
	counter func(context.Context) (Reading, error) // reads the gauge, or one node
	own     time.Duration                          // CPU time of the server that one reading costs
}

// readings is how often the meter reads to measure the cost of reading.
const readings = 20

func newMeter(ctx context.Context, g Gauge) (*meter, error) {
	if g == nil {
		return &meter{}, nil
	}
	m := &meter{gauge: g, counter: g.Read}
	return m, m.calibrate(ctx)
}

// calibrate measures the cost of a reading.
func (m *meter) calibrate(ctx context.Context) error {
	first, err := m.read(ctx)
	if err != nil {
		return err
	}

	// A reading costs CPU time itself, which the method since subtracts.
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

// since returns the server's usage after a reading, without the cost of reading.
func (m *meter) since(ctx context.Context, before Reading) (Reading, error) {
	after, err := m.read(ctx)
	if err != nil {
		return Reading{}, err
	}
	spent, err := after.since(before)

	// own is a mean, so it may be larger than the usage of a short run.
	spent.CPU = max(0, spent.CPU-m.own)
	return spent, err
}

const (
	// calmEvery and calmTime are the interval and the limit of reading the memory until it no
	// longer falls, because servers free the memory of calls gradually.
	calmEvery = 250 * time.Millisecond
	calmTime  = 5 * time.Second
	calmBytes = 64 << 10
)

// memory returns the server's used memory after it has settled.
func (b *bench) memory(ctx context.Context) (int64, error) {
	now, err := b.meter.read(ctx)

	// A server frees memory some time after a call has returned, so the reading waits until the
	// usage no longer changes.
	for until := b.clock.Mono() + calmTime; err == nil && b.meter.gauge != nil && b.clock.Mono() < until; {
		pause(ctx, b.clock, calmEvery)
		last := now
		if now, err = b.meter.read(ctx); err == nil && last.Memory-now.Memory < calmBytes {
			break
		}
	}
	return now.Memory, errors.Join(err, ctx.Err())
}
