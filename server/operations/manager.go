package operations

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/durable"
	"github.com/dulymq/duly/server/audit"
	"github.com/dulymq/duly/server/operations/pace"
	"github.com/dulymq/duly/server/operations/record"
	"github.com/dulymq/duly/server/route"
)

const (
	// Folder is the folder of the records, in the data folder.
	Folder = "operations"
	// MaxRunning is the number of operations that run at once.
	MaxRunning = 4
	// MaxOpen is the number of operations that have not ended.
	MaxOpen = 100
	// maxEnded is the number of ended operations that are kept, maxAge how long.
	maxEnded = 1000
	maxAge   = 30 * 24 * time.Hour
	// maxAnswers is the number of answers that an operation keeps.
	maxAnswers = 100
)

// Auditor writes the audit log. [audit.Log] implements it.
type Auditor interface {
	// Begin writes the intent of an action. After an error the action must not run.
	Begin(audit.Action) (end func(audit.Outcome), err error)
	// End writes the outcome of a lasting action.
	End(id string, o audit.Outcome, sync bool)
}

// Config configures a Manager. All fields except DataDir and Log must be set.
type Config struct {
	Engine contract.Engine
	Clock  duly.Clock
	Audit  Auditor
	// DataDir has the folder of the records. Without it, operations end with the process.
	DataDir string
	Log     *slog.Logger
}

// Actor is a person who starts or changes an operation. The fields are those of [audit.Action].
type Actor struct{ Caller, Session, Remote, Via, Request string }

// Manager has the operations of a server. It is safe for concurrent use.
type Manager struct {
	cfg   Config
	store record.Store

	mu                sync.Mutex
	all               map[string]*entry
	changed           chan struct{}
	running, starting int // numbers of operations
	// ctx is set while Run runs.
	ctx     context.Context
	workers sync.WaitGroup
	totals  map[Total]int64
}

// Total names a counter of jobs.
type Total struct{ Kind, Outcome string }

// entry is an operation with the goroutine that works on it. The mutex of the manager guards its fields.
type entry struct {
	rec *record.Record
	// cancel ends the goroutine, and left is closed after it. Both are nil without one.
	cancel context.CancelFunc
	left   chan struct{}
	// want is the state after the goroutine, "" for the one that it chooses.
	want   contract.OperationState
	reason string
	rate   pace.Meter
	// saving is held while the file is written. It is locked before the mutex of the manager.
	saving sync.Mutex
}

// New returns the operations of a data folder. Those that had not ended are interrupted. It fails only if the folder
// cannot be read.
func New(cfg Config) (*Manager, error) {
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	m := &Manager{
		cfg: cfg, all: map[string]*entry{}, changed: make(chan struct{}), totals: map[Total]int64{},
		store: record.Store{Write: durable.WriteFile},
	}
	if cfg.DataDir != "" {
		m.store.Dir = filepath.Join(cfg.DataDir, Folder)
	}

	list, err := m.store.Load(func(name string, err error) {
		cfg.Log.Warn("the record of an operation cannot be read, so the operation is not listed", "file", name, "error",
			route.Fault(err))
	})
	if err != nil {
		return nil, err
	}
	for _, rec := range list {
		e := &entry{rec: rec}
		m.all[rec.Operation.ID] = e
		o := &rec.Operation
		if o.CurrentRate, o.ExpectedEnd = 0, (time.Time{}); o.State.Ended() {
			o.Answers = nil
		} else if o.State != contract.OperationPaused {
			o.State, o.Reason = contract.OperationInterrupted, interruptedText
		}
	}
	m.prune()
	return m, nil
}

// Run runs operations until ctx ends. Then it waits until each has stored its place.
func (m *Manager) Run(ctx context.Context) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	m.mu.Lock()
	m.ctx = ctx
	for _, e := range m.all {
		if e.rec.Operation.State == contract.OperationWaiting {
			m.watch(e)
		}
	}
	m.schedule()
	m.mu.Unlock()

	<-ctx.Done()
	m.mu.Lock()
	m.ctx = nil
	m.mu.Unlock()
	m.workers.Wait()
}

// Changed returns a channel that is closed at the next change of any operation.
func (m *Manager) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// signal reports a change. The caller holds the mutex.
func (m *Manager) signal() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// List returns a page of the operations of a namespace, newest first, without their answers. The cursor is the ID of
// the last one of the page before.
func (m *Manager) List(namespace string, p duly.PageParams) (list []contract.Operation, next string, err error) {
	if err := contract.ValidatePage(&p); err != nil {
		return nil, "", err
	}
	if _, ok := duly.ParseNumber(p.Cursor); !ok && p.Cursor != "" {
		return nil, "", contract.BadCursor()
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	for id, e := range m.all {
		if e.rec.Operation.Namespace == namespace && (p.Cursor == "" || id < p.Cursor) {
			o := m.view(e)
			o.Answers = nil
			list = append(list, o)
		}
	}
	slices.SortFunc(list, func(a, b contract.Operation) int { return cmp.Compare(b.ID, a.ID) })
	if len(list) > p.Limit {
		list = list[:p.Limit]
		next = list[p.Limit-1].ID
	}
	return list, next, nil
}

// Get returns an operation. It returns [duly.ErrNotFound] if there is none in the namespace.
func (m *Manager) Get(namespace, id string) (contract.Operation, error) {
	m.mu.Lock()
	e, err := m.find(namespace, id)
	if err != nil {
		m.mu.Unlock()
		return contract.Operation{}, err
	}
	o := m.view(e)
	m.mu.Unlock()

	// Answers of ended operations are only in their files.
	if o.State.Ended() && m.store.Dir != "" {
		if rec, err := m.store.Read(id); err == nil {
			o.Answers = latest(rec.Operation.Answers)
		}
	}
	return o, nil
}

// find returns an operation of a namespace. The caller holds the mutex.
func (m *Manager) find(namespace, id string) (*entry, error) {
	e := m.all[id]
	if e == nil || e.rec.Operation.Namespace != namespace {
		return nil, contract.Errorf(duly.CodeNotFound,
			"no operation %s on this server; an operation belongs to the server that started it", contract.Quoted(id))
	}
	return e, nil
}

// view returns a copy for a caller. The caller holds the mutex.
func (m *Manager) view(e *entry) contract.Operation {
	o := e.rec.Operation
	o.Answers = latest(o.Answers)
	if o.Canary != nil {
		canary := *o.Canary
		o.Canary = &canary
	}
	if o.State == contract.OperationRunning && o.Counted && o.CurrentRate > 0 {
		seconds := float64(max(0, o.Found-o.Taken)) / o.CurrentRate
		o.ExpectedEnd = m.cfg.Clock.Now().Add(time.Duration(min(seconds, 366*24*3600) * float64(time.Second)))
	}
	return o
}

// States returns the number of operations by state.
func (m *Manager) States() map[contract.OperationState]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := map[contract.OperationState]int{}
	for _, e := range m.all {
		counts[e.rec.Operation.State]++
	}
	return counts
}

// Totals returns the number of jobs that operations of this process have taken.
func (m *Manager) Totals() map[Total]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.totals)
}

// save writes the file of an operation.
func (m *Manager) save(e *entry) error {
	e.saving.Lock()
	defer e.saving.Unlock()
	m.mu.Lock()
	text, err := json.Marshal(e.rec)
	m.mu.Unlock()
	if err != nil {
		return err
	}
	return m.store.Save(e.rec.Operation.ID, text)
}

// keep is like save after a change that has happened. A failure leaves an older record, and is logged.
func (m *Manager) keep(e *entry) {
	if err := m.save(e); err != nil {
		m.cfg.Log.Error("the record of an operation could not be written", "operation", e.rec.Operation.ID,
			"error", route.Fault(err))
	}
}

// prune removes the oldest of the ended operations. The caller holds the mutex or is alone.
func (m *Manager) prune() {
	var ended []*contract.Operation
	for _, e := range m.all {
		if o := &e.rec.Operation; o.State.Ended() && e.left == nil {
			ended = append(ended, o)
		}
	}
	slices.SortFunc(ended, func(a, b *contract.Operation) int {
		return cmp.Or(b.Ended.Compare(a.Ended), cmp.Compare(b.ID, a.ID))
	})
	for i, o := range ended {
		if i >= maxEnded || m.cfg.Clock.Now().Sub(o.Ended) > maxAge {
			m.store.Remove(o.ID)
			delete(m.all, o.ID)
		}
	}
}
