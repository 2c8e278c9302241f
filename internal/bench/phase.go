package bench

import (
	"context"
	"slices"

	"github.com/dulymq/duly"
)

// Phase is one way to load an engine.
type Phase string

// The phases of a measurement.
const (
	// Push pushes batches from Load.Callers goroutines.
	Push Phase = "push"
	// Single pushes one job per call from Load.Goroutines goroutines.
	Single Phase = "single"
	// Take reserves and acks batches of a loaded queue from Load.Callers goroutines.
	Take Phase = "take"
	// Work empties a loaded queue with the worker.
	Work Phase = "work"
	// Both pushes one job per call from Load.Goroutines goroutines while a worker handles the jobs.
	Both Phase = "both"
	// Lateness makes Load.Rate jobs due per second, at even intervals, while a worker handles the
	// jobs.
	Lateness Phase = "lateness"
	// Calls makes calls from one goroutine: pushes of ready and of delayed jobs, reserves and
	// acks, each separately.
	Calls Phase = "calls"
	// Burst makes Load.Jobs jobs due in the same millisecond and takes the jobs like the phase
	// Take.
	Burst Phase = "burst"

	// Life measures jobs of several kinds in batches of several sizes from push to ack, and
	// reports the cost of each stage.
	Life Phase = "life"

	// Publish publishes batches to a topic from Load.Callers goroutines.
	Publish Phase = "publish"
	// Group reserves and acks batches of a group from Load.Callers goroutines.
	Group Phase = "group"
	// GroupWork empties a loaded group with a worker that handles batches.
	GroupWork Phase = "group-work"
	// GroupLateness is Lateness with delayed messages of a topic.
	GroupLateness Phase = "group-lateness"
	// TickLateness is Lateness with the runs of Load.Rate schedules that have a tick per second each.
	TickLateness Phase = "tick-lateness"

	// These phases need a gauge.

	// NativePush and NativeTake are Push and Take with the server's commands.
	NativePush Phase = "native-push"
	NativeTake Phase = "native-take"
	// NativePublish and NativeGroup are Publish and Group with a stream and a group of the
	// server.
	NativePublish Phase = "native-publish"
	NativeGroup   Phase = "native-group"
	// Memory loads Load.Jobs ready jobs, as many delayed ones, and as many of each kind, and
	// reports their memory.
	Memory Phase = "memory"
	// Idle makes a worker wait on Load.Queues empty queues for Load.Time and counts its requests
	// to the server.
	Idle Phase = "idle"
	// Spread pushes and takes jobs of a queue with several shards in a cluster and reports the cost
	// for the busiest node. With Config.Against it also measures one server without a cluster.
	Spread Phase = "spread"
)

// Phases returns the default phases, in their order. A phase that takes jobs comes after a phase
// that leaves some.
func Phases() []Phase { return []Phase{Push, Take, Single, Work, Both, Lateness, Life} }

// GaugePhases returns the default phases of an engine with a gauge, in order. Phases that are
// compared with each other are adjacent. Idle is first: the engine later runs one maintenance
// step in each used queue, and Idle would count those requests.
func GaugePhases() []Phase {
	return []Phase{Idle, Push, NativePush, Take, NativeTake, Single, Work, Both, Lateness, Calls, Burst, Life, Memory}
}

// AllPhases returns every phase.
func AllPhases() []Phase {
	return append(Phases(), Calls, Burst, Publish, Group, GroupWork, GroupLateness, TickLateness, NativePush,
		NativeTake, NativePublish, NativeGroup, Memory, Idle, Spread)
}

// needsGauge reports whether a phase measures only the server.
func (p Phase) needsGauge() bool {
	return slices.Contains([]Phase{NativePush, NativeTake, NativePublish, NativeGroup, Memory, Idle, Spread}, p)
}

func names[T ~string](of []T) []string {
	all := make([]string, len(of))
	for i, name := range of {
		all[i] = string(name)
	}
	return all
}

// spec describes how a phase is run.
type spec struct {
	// loaded means that the queue must hold the jobs of a run before it begins.
	loaded bool
	// apart means that the phase uses another queue even if there is a backlog.
	apart bool
	// native means that the phase uses no queue of the engine.
	native bool
	// paced means that Load.Rate jobs become due per second, and the phase lasts as long as they
	// do.
	paced bool
	// load, if set, prepares a run in addition.
	load func(b *bench, ctx context.Context, at Progress, q duly.QueueRef, jobs int) error
	// of is the name of the operation that the latencies measure.
	of string
	// measure performs the run in queue q.
	measure func(b *bench, ctx context.Context, r *run, q duly.QueueRef) error
	// whole, if set, performs the whole phase, which has no separate runs.
	whole func(b *bench, ctx context.Context, at Progress) (Result, error)
}

// specOf returns how a phase is run. It is a switch, because a table in a variable would cause an
// initialization cycle.
func specOf(p Phase) spec {
	switch p {
	case Push:
		return spec{of: "call", measure: func(b *bench, ctx context.Context, r *run, q duly.QueueRef) error {
			return b.push(ctx, r, q, b.cfg.Load.Callers, b.cfg.Load.Batch, 0)
		}}
	case Single:
		return spec{of: "call", measure: func(b *bench, ctx context.Context, r *run, q duly.QueueRef) error {
			return b.push(ctx, r, q, b.cfg.Load.Goroutines, 1, 0)
		}}
	case Take:
		return spec{loaded: true, of: "reserve+ack", measure: (*bench).take}
	case Work:
		return spec{loaded: true, measure: (*bench).work}
	case Both:
		return spec{apart: true, of: "push to handler", measure: (*bench).both}
	case Burst:
		return spec{apart: true, of: "reserve+ack", load: (*bench).loadBurst, measure: (*bench).take}
	case NativePush:
		return spec{native: true, measure: (*bench).nativePush}
	case NativeTake:
		return spec{native: true, measure: (*bench).nativeTake, load: (*bench).loadNative}
	case Publish:
		return spec{native: true, of: "call", measure: (*bench).publish, load: (*bench).loadEmptyTopic}
	case Group:
		return spec{native: true, of: "reserve+ack", measure: (*bench).consume, load: (*bench).loadGroup}
	case GroupWork:
		return spec{native: true, measure: (*bench).workGroup, load: (*bench).loadGroup}
	case GroupLateness:
		return spec{
			native: true, apart: true, paced: true, of: "lateness",
			measure: (*bench).groupLateness, load: (*bench).loadEmptyTopic,
		}
	case TickLateness:
		return spec{apart: true, paced: true, of: "lateness", measure: (*bench).tickLateness, load: (*bench).loadTicks}
	case NativePublish:
		return spec{native: true, measure: (*bench).nativePublish}
	case NativeGroup:
		return spec{native: true, measure: (*bench).nativeGroup, load: (*bench).loadStream}
	case Calls:
		return spec{whole: (*bench).calls}
	case Life:
		return spec{whole: (*bench).life}
	case Memory:
		return spec{whole: (*bench).weigh}
	case Spread:
		return spec{whole: (*bench).spread}
	case Idle:
		return spec{whole: (*bench).idle}
	}

	return spec{apart: true, paced: true, of: "lateness", measure: (*bench).lateness}
}
func (b *bench) loadNative(ctx context.Context, at Progress, _ duly.QueueRef, jobs int) error {
	return b.prepareNative(ctx, at, b.native, &b.stored, jobs)
}

func (b *bench) loadStream(ctx context.Context, at Progress, _ duly.QueueRef, jobs int) error {
	return b.prepareNative(ctx, at, b.streams, &b.added, jobs)
}

func (b *bench) loadEmptyTopic(ctx context.Context, at Progress, _ duly.QueueRef, _ int) error {
	return b.loadTopic(ctx, at, "publish", 0)
}

func (b *bench) loadGroup(ctx context.Context, at Progress, _ duly.QueueRef, jobs int) error {
	return b.loadTopic(ctx, at, "group", jobs)
}
