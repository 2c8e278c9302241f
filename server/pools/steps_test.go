package pools_test

import (
	"context"
	"errors"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/server/pools"
)

// steps is a server's calls to its engines, one of which is special: something
// happens behind it, or the server's process dies there.
type steps struct {
	left  int    // until the special one, which is the leftth; below 1: it is over
	then  func() // is done behind it
	death death
	pause func() // is done behind each
}

// death is how a process dies at a step.
type death int

const (
	lives  death = iota
	before       // the call is not made
	behind       // the call is made, and its answer not heard
	deaths       // how many ways there are
)

var errDied = errors.New("died")

// over tells whether the special call was made.
func (s *steps) over() bool { return s.left < 1 }

// through makes a call, the next step.
func through[T any](s *steps, call func() (T, error)) (none T, err error) {
	s.left--
	if s.pause != nil {
		defer s.pause()
	}
	if s.left == 0 && s.then != nil {
		defer s.then()
	}
	if s.left > 0 || s.death == lives {
		return call()
	}
	if s.left == 0 && s.death == behind {
		_, _ = call()
	}
	return none, errDied
}

func (s *steps) do(call func() error) error {
	_, err := through(s, func() (struct{}, error) { return struct{}{}, call() })
	return err
}

// stepping is an engine to which each call of a move is a step.
type stepping struct {
	*model.Engine
	*steps
}

// stepping is one more server on the rig's engines, each of whose calls is a step.
func (r *rig) stepping(s *steps) *pools.Pools {
	return r.another(func(_ string, e *model.Engine) contract.Engine { return stepping{e, s} })
}

func (e stepping) PutPlacement(ctx context.Context, p contract.Placement) error {
	return e.do(func() error { return e.Engine.PutPlacement(ctx, p) })
}

func (e stepping) FindPlacement(ctx context.Context, namespace string) (contract.Placement, error) {
	return through(e.steps, func() (contract.Placement, error) { return e.Engine.FindPlacement(ctx, namespace) })
}

func (e stepping) Placements(ctx context.Context, p duly.PageParams) (contract.PlacementPage, error) {
	return through(e.steps, func() (contract.PlacementPage, error) { return e.Engine.Placements(ctx, p) })
}

func (e stepping) Push(ctx context.Context, jobs []duly.Job) ([]duly.PushResult, error) {
	return through(e.steps, func() ([]duly.PushResult, error) { return e.Engine.Push(ctx, jobs) })
}

func (e stepping) Get(ctx context.Context, q duly.QueueRef, id string) (duly.JobInfo, error) {
	return through(e.steps, func() (duly.JobInfo, error) { return e.Engine.Get(ctx, q, id) })
}

func (e stepping) List(ctx context.Context, q duly.QueueRef, p duly.ListParams) (duly.ListPage, error) {
	return through(e.steps, func() (duly.ListPage, error) { return e.Engine.List(ctx, q, p) })
}

func (e stepping) Queues(ctx context.Context, namespace string, p duly.PageParams) (duly.NamePage, error) {
	return through(e.steps, func() (duly.NamePage, error) { return e.Engine.Queues(ctx, namespace, p) })
}

func (e stepping) Stats(ctx context.Context, q duly.QueueRef) (duly.Stats, error) {
	return through(e.steps, func() (duly.Stats, error) { return e.Engine.Stats(ctx, q) })
}

func (e stepping) Config(ctx context.Context, q duly.QueueRef) (duly.QueueConfig, error) {
	return through(e.steps, func() (duly.QueueConfig, error) { return e.Engine.Config(ctx, q) })
}

func (e stepping) Configure(ctx context.Context, q duly.QueueRef, c duly.QueueConfig) error {
	return e.do(func() error { return e.Engine.Configure(ctx, q, c) })
}

func (e stepping) Pause(ctx context.Context, q duly.QueueRef) error {
	return e.do(func() error { return e.Engine.Pause(ctx, q) })
}

func (e stepping) Resume(ctx context.Context, q duly.QueueRef) error {
	return e.do(func() error { return e.Engine.Resume(ctx, q) })
}

func (e stepping) Delete(ctx context.Context, q duly.QueueRef, id string) error {
	return e.do(func() error { return e.Engine.Delete(ctx, q, id) })
}

func (e stepping) Destroy(ctx context.Context, q duly.QueueRef) error {
	return e.do(func() error { return e.Engine.Destroy(ctx, q) })
}
