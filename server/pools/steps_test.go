package pools_test

import (
	"context"
	"errors"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/server/pools"
)

// stepCounter counts the calls of a server to its engines. After a chosen call, the step, the test
// runs a function, or the server crashes at that call.
type stepCounter struct {
	left  int    // number of calls up to the step; below 1 once the step is over
	then  func() // is called after the step
	crash crash
	pause func() // is called after each call
}

// crash is how a server crashes at the step.
type crash int

const (
	noCrash     crash = iota
	crashBefore       // the step's call is not made
	crashAfter        // the step's call is made, and its result is lost
	crashKinds        // number of kinds of steps
)

var errCrashed = errors.New("crashed")

// over reports whether the step was made.
func (s *stepCounter) over() bool { return s.left < 1 }

// step makes the next call.
func step[T any](s *stepCounter, call func() (T, error)) (none T, err error) {
	s.left--
	if s.pause != nil {
		defer s.pause()
	}
	if s.left == 0 && s.then != nil {
		defer s.then()
	}
	if s.left > 0 || s.crash == noCrash {
		return call()
	}
	if s.left == 0 && s.crash == crashAfter {
		_, _ = call()
	}
	return none, errCrashed
}

func (s *stepCounter) do(call func() error) error {
	_, err := step(s, func() (struct{}, error) { return struct{}{}, call() })
	return err
}

// countingEngine is an engine whose calls a stepCounter counts.
type countingEngine struct {
	*model.Engine
	*stepCounter
}

// newCountingServer returns another server on the rig's engines, whose calls are counted.
func (r *rig) newCountingServer(s *stepCounter) *pools.Pools {
	return r.newServer(func(_ string, e *model.Engine) contract.Engine { return countingEngine{e, s} })
}

func (e countingEngine) PutPlacement(ctx context.Context, p contract.Placement) error {
	return e.do(func() error { return e.Engine.PutPlacement(ctx, p) })
}

func (e countingEngine) FindPlacement(ctx context.Context, namespace string) (contract.Placement, error) {
	return step(e.stepCounter, func() (contract.Placement, error) { return e.Engine.FindPlacement(ctx, namespace) })
}

func (e countingEngine) Placements(ctx context.Context, p duly.PageParams) (contract.PlacementPage, error) {
	return step(e.stepCounter, func() (contract.PlacementPage, error) { return e.Engine.Placements(ctx, p) })
}

func (e countingEngine) Push(ctx context.Context, jobs []duly.Job) ([]duly.PushResult, error) {
	return step(e.stepCounter, func() ([]duly.PushResult, error) { return e.Engine.Push(ctx, jobs) })
}

func (e countingEngine) Get(ctx context.Context, q duly.QueueRef, id string) (duly.JobInfo, error) {
	return step(e.stepCounter, func() (duly.JobInfo, error) { return e.Engine.Get(ctx, q, id) })
}

func (e countingEngine) List(ctx context.Context, q duly.QueueRef, p duly.ListParams) (duly.ListPage, error) {
	return step(e.stepCounter, func() (duly.ListPage, error) { return e.Engine.List(ctx, q, p) })
}

func (e countingEngine) Queues(ctx context.Context, namespace string, p duly.PageParams) (duly.NamePage, error) {
	return step(e.stepCounter, func() (duly.NamePage, error) { return e.Engine.Queues(ctx, namespace, p) })
}

func (e countingEngine) Stats(ctx context.Context, q duly.QueueRef) (duly.Stats, error) {
	return step(e.stepCounter, func() (duly.Stats, error) { return e.Engine.Stats(ctx, q) })
}

func (e countingEngine) Config(ctx context.Context, q duly.QueueRef) (duly.QueueConfig, error) {
	return step(e.stepCounter, func() (duly.QueueConfig, error) { return e.Engine.Config(ctx, q) })
}

func (e countingEngine) Configure(ctx context.Context, q duly.QueueRef, c duly.QueueConfig) error {
	return e.do(func() error { return e.Engine.Configure(ctx, q, c) })
}

func (e countingEngine) Pause(ctx context.Context, q duly.QueueRef) error {
	return e.do(func() error { return e.Engine.Pause(ctx, q) })
}

func (e countingEngine) Resume(ctx context.Context, q duly.QueueRef) error {
	return e.do(func() error { return e.Engine.Resume(ctx, q) })
}

func (e countingEngine) Delete(ctx context.Context, q duly.QueueRef, id string) error {
	return e.do(func() error { return e.Engine.Delete(ctx, q, id) })
}

func (e countingEngine) Destroy(ctx context.Context, q duly.QueueRef) error {
	return e.do(func() error { return e.Engine.Destroy(ctx, q) })
}

func (e countingEngine) PutSchedule(ctx context.Context, q duly.QueueRef, s duly.Schedule) (duly.SchedulePut, error) {
	return step(e.stepCounter, func() (duly.SchedulePut, error) { return e.Engine.PutSchedule(ctx, q, s) })
}

func (e countingEngine) GetSchedule(ctx context.Context, q duly.QueueRef, name string) (duly.ScheduleInfo, error) {
	return step(e.stepCounter, func() (duly.ScheduleInfo, error) { return e.Engine.GetSchedule(ctx, q, name) })
}

func (e countingEngine) Schedules(ctx context.Context, q duly.QueueRef, p duly.PageParams) (duly.SchedulePage, error) {
	return step(e.stepCounter, func() (duly.SchedulePage, error) { return e.Engine.Schedules(ctx, q, p) })
}

func (e countingEngine) HeldSchedules(ctx context.Context, q duly.QueueRef, p duly.PageParams) (duly.NamePage, error) {
	return step(e.stepCounter, func() (duly.NamePage, error) { return e.Engine.HeldSchedules(ctx, q, p) })
}

func (e countingEngine) HoldSchedule(ctx context.Context, q duly.QueueRef, name string) (contract.ScheduleRecord, error) {
	return step(e.stepCounter, func() (contract.ScheduleRecord, error) { return e.Engine.HoldSchedule(ctx, q, name) })
}

func (e countingEngine) ImportSchedule(ctx context.Context, r contract.ScheduleRecord) (contract.ScheduleRecord, error) {
	return step(e.stepCounter, func() (contract.ScheduleRecord, error) { return e.Engine.ImportSchedule(ctx, r) })
}

func (e countingEngine) DropSchedule(ctx context.Context, q duly.QueueRef, name string) error {
	return e.do(func() error { return e.Engine.DropSchedule(ctx, q, name) })
}

func (e countingEngine) ReleaseSchedule(ctx context.Context, q duly.QueueRef, name string) error {
	return e.do(func() error { return e.Engine.ReleaseSchedule(ctx, q, name) })
}
