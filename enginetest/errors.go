package enginetest

import (
	"errors"
	"strings"
	"time"

	"github.com/dulymq/duly"
)

func errorTests() []test {
	return []test{
		{"MatchTheirSentinels", []string{"C13.1", "C13.2", "C13.4", "C13.5", "C13.6", "C13.7", "C13.9", "C13.14"},
			Options{OneShard: true}, errorSentinels},
		{"DoNotContainTheBody", []string{"C13.1", "C13.2"}, Options{}, errorsWithoutBodies},
		{"FitOnOneLine", []string{"C13.2"}, Options{}, errorsOnOneLine},
		{"ClosedEngineReturnsClosed", []string{"C13.13"}, Options{}, errorClosed},
		{"ClosedEngineEndsItsWaiters", []string{"C13.13"}, Options{}, errorClosedWaiters},
	}
}

// faults returns an error for each code that an engine can cause by itself.
func (s *scene) faults() map[duly.Code]error {
	s.Helper()
	s.configure(duly.QueueConfig{MaxJobs: 1})
	s.push(duly.Job{ID: "x"})
	full := s.try(duly.Job{}).Err
	d := s.take() // gives the queue room again for the calls below
	faults := map[duly.Code]error{
		duly.CodeInvalid:   s.try(duly.Job{Priority: 5000}).Err,
		duly.CodeNotFound:  s.Engine.Delete(s.ctx, s.ref(), "nobody"),
		duly.CodeConflict:  s.Engine.Promote(s.ctx, s.ref(), d.ID),
		duly.CodeLeaseLost: s.settle(duly.SettleRequest{Receipt: d.Receipt + "0", As: duly.Ack}),
		duly.CodeTooLarge:  s.try(duly.Job{Body: make([]byte, duly.DefaultMaxBody+1)}).Err,
		duly.CodeFull:      full,
	}
	// An engine with one shard refuses four.
	if err := s.Engine.Configure(s.ctx, s.on("sharded").ref(), duly.QueueConfig{Shards: 4}); err != nil {
		faults[duly.CodeUnsupported] = err
	}
	return faults
}

func errorSentinels(s *scene) {
	sentinels := map[duly.Code]error{
		duly.CodeInvalid: duly.ErrInvalid, duly.CodeNotFound: duly.ErrNotFound, duly.CodeConflict: duly.ErrConflict,
		duly.CodeLeaseLost: duly.ErrLeaseLost, duly.CodeTooLarge: duly.ErrTooLarge, duly.CodeFull: duly.ErrFull,
		duly.CodeUnsupported: duly.ErrUnsupported,
	}
	for code, err := range s.faults() {
		s.refused("it", err, code)
		// Each error matches its own sentinel and no other.
		for other, sentinel := range sentinels {
			same(s, string(code)+" is "+string(other), errors.Is(err, sentinel), code == other)
		}
		var e *duly.Error
		if !errors.As(err, &e) || e.Message == "" {
			s.Errorf("%v must be a *duly.Error with a message", err)
		}
	}
}

func errorsWithoutBodies(s *scene) {
	const secret = "s3cr3t-body"
	for _, err := range []error{
		// Each error is about a field other than the body, or about the body's size.
		s.try(duly.Job{Body: []byte(secret), Priority: 5000}).Err,
		s.try(duly.Job{Body: []byte(secret + strings.Repeat("x", duly.DefaultMaxBody))}).Err,
		s.try(duly.Job{Body: []byte(secret), Headers: map[string]string{"a": secret + "\n"}}).Err,
	} {
		if err == nil || strings.Contains(err.Error(), secret) {
			s.Errorf("the error is %v, want an error without the secret", err)
		}
	}
}

func errorsOnOneLine(s *scene) {
	nasty := "a\nb\r\x00\x1b[31m\u2028" + strings.Repeat("long", 1000)
	for _, j := range []duly.Job{
		{ID: nasty}, {Queue: nasty}, {OrderKey: nasty}, {Backoff: duly.Backoff(nasty)},
		{Merge: duly.Merge{Key: "k", Mode: duly.MergeMode(nasty)}},
		{Headers: map[string]string{nasty: ""}}, {ID: nasty[:20]}, {Queue: nasty[:20]},
	} {
		err := s.try(j).Err
		s.refused("a field with control characters", err, duly.CodeInvalid)
		// Control characters have to be quoted, and long values cut.
		if err != nil && (strings.ContainsAny(err.Error(), "\n\r\x00\x1b\u2028") || len(err.Error()) > 1000) {
			s.Errorf("the error is %q, want at most 1000 bytes without control characters", err)
		}
	}
}

func errorClosed(s *scene) {
	s.push(duly.Job{ID: "x"})
	d := s.take()
	s.closed = true // the audit after the test would need an open engine
	// A second Close succeeds too.
	for range 2 {
		s.must("close", s.Engine.Close())
	}
	_, err := s.pushed(duly.Job{})
	s.refused("push", err, duly.CodeClosed)
	_, err = s.Engine.Reserve(s.ctx, duly.ReserveParams{Queues: []string{s.queue}, Max: 1})
	s.refused("reserve", err, duly.CodeClosed)
	_, err = s.Engine.Wait(s.ctx, duly.WaitParams{Queues: []string{s.queue}, Timeout: time.Minute})
	s.refused("wait", err, duly.CodeClosed)
	_, err = s.Engine.Settle(s.ctx, "", []duly.SettleRequest{{Receipt: d.Receipt, As: duly.Ack}})
	s.refused("settle", err, duly.CodeClosed)
	_, err = s.Engine.Extend(s.ctx, "", []duly.Receipt{d.Receipt}, 0)
	s.refused("extend", err, duly.CodeClosed)
	_, err = s.Engine.Get(s.ctx, s.ref(), "x")
	s.refused("get", err, duly.CodeClosed)
	_, err = s.Engine.GetByReceipt(s.ctx, s.namespace, d.Receipt)
	s.refused("get by receipt", err, duly.CodeClosed)
	_, err = s.Engine.Stats(s.ctx, s.ref())
	s.refused("stats", err, duly.CodeClosed)
	_, err = s.Engine.List(s.ctx, s.ref(), duly.ListParams{State: duly.StateReady})
	s.refused("list", err, duly.CodeClosed)
	s.refused("delete", s.Engine.Delete(s.ctx, s.ref(), "x"), duly.CodeClosed)
	s.refused("configure", s.Engine.Configure(s.ctx, s.ref(), duly.QueueConfig{MaxJobs: 1}), duly.CodeClosed)
	if !errors.Is(err, duly.ErrClosed) {
		s.Errorf("errors.Is(%v, ErrClosed) is false, want true", err)
	}
}

func errorClosedWaiters(s *scene) {
	ws := s.crowd(3)
	s.closed = true
	s.must("close", s.Engine.Close())
	s.Quiet()
	for _, w := range ws {
		// End a Wait that is still blocked, so that its error can be compared.
		if !w.returned() {
			w.end()
		}
		s.refused("a wait when the engine closes", w.err, duly.CodeClosed)
	}
}
