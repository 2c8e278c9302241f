package enginetest

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/dulymq/duly"
)

func inputTests() []test {
	return []test{
		{"ErrorNamesTheFieldBeyondItsBound", []string{"C2.7", "C2.8", "C2.11", "C2.13", "C2.14", "C2.15", "C2.17", "C2.22",
			"C2.26", "C13.2", "C13.7"}, Options{}, inputBeyondBounds},
		{"FieldsAtTheirBoundsAreAccepted", []string{"C2.7", "C2.8", "C2.14", "C2.15", "C2.17", "C2.26"}, Options{},
			inputAtBounds},
		{"ErrorNamesEveryBadFieldOfAJob", []string{"C13.2"}, Options{}, inputNamesAll},
		{"BadJobIsNotStored", []string{"C4.4", "C13.2"}, Options{}, inputStoresNothing},
		{"ContradictoryMergeRulesAreRefused", []string{"C7.17"}, Options{}, inputMergeRules},
		{"ErrorNamesBadParametersOfACall", []string{"C4.10", "C13.2"}, Options{}, inputParameters},
		{"BadOutcomeIsRefusedAndTheJobStaysLeased", []string{"C4.21", "C13.2", "C2.31"}, Options{}, inputOutcomes},
	}
}

// badField is a job with one field that exceeds its limits.
type badField struct {
	field string
	code  duly.Code
	job   duly.Job
}

func badFields() []badField {
	day := 24 * time.Hour
	bad := []badField{
		{"body", duly.CodeTooLarge, duly.Job{Body: make([]byte, duly.DefaultMaxBody+1)}},
		{"headers", duly.CodeTooLarge, duly.Job{Headers: manyHeaders(duly.MaxHeaders + 1)}},
		{"headers", duly.CodeTooLarge, duly.Job{Headers: map[string]string{"a": strings.Repeat("x", duly.MaxHeaderBytes)}}},
		{"delay", duly.CodeInvalid, duly.Job{Delay: -time.Millisecond}},
		{"delay", duly.CodeInvalid, duly.Job{Delay: time.Second, Due: duly.MaxTime}},
		{"due", duly.CodeInvalid, duly.Job{Due: duly.MaxTime.Add(time.Millisecond)}},
		{"priority", duly.CodeInvalid, duly.Job{Priority: duly.MaxPriority + 1}},
		{"priority", duly.CodeInvalid, duly.Job{Priority: duly.MinPriority - 1}},
		{"tries", duly.CodeInvalid, duly.Job{Tries: duly.MaxTries + 1}},
		{"tries", duly.CodeInvalid, duly.Job{Tries: -1}},
		{"max_stalls", duly.CodeInvalid, duly.Job{MaxStalls: duly.MaxTries + 1}},
		{"max_stalls", duly.CodeInvalid, duly.Job{MaxStalls: -2}},
		{"ttl", duly.CodeInvalid, duly.Job{TTL: -time.Second}},
		{"ttl", duly.CodeInvalid, duly.Job{TTL: time.Second, Delay: 2 * time.Second}},
		{"lease", duly.CodeInvalid, duly.Job{Lease: duly.MinLease - time.Millisecond}},
		{"lease", duly.CodeInvalid, duly.Job{Lease: duly.MaxLease + time.Millisecond}},
		{"lease", duly.CodeInvalid, duly.Job{Lease: -time.Second}},
		{"retain", duly.CodeInvalid, duly.Job{Retain: -time.Second}},
		{"order_key", duly.CodeInvalid, duly.Job{OrderKey: strings.Repeat("k", duly.MaxKey+1)}},
		{"merge.key", duly.CodeInvalid, duly.Job{Merge: duly.Merge{Key: strings.Repeat("k", duly.MaxKey+1)}}},
		{"merge.mode", duly.CodeInvalid, duly.Job{Merge: duly.Merge{Key: "k", Mode: "latest"}}},
		{"merge.until", duly.CodeInvalid, duly.Job{Merge: duly.Merge{Key: "k", Until: "friday"}}},
		{"merge.max_wait", duly.CodeInvalid, duly.Job{Merge: duly.Merge{Key: "k", Mode: duly.MergeReplace,
			MaxWait: -1 * day}}},
		{"callback", duly.CodeInvalid, duly.Job{Callback: "ftp://example.com/"}},
	}
	for _, text := range badBackoffs() {
		bad = append(bad, badField{"backoff", duly.CodeInvalid, duly.Job{Backoff: text}})
	}
	return bad
}

func badBackoffs() []duly.Backoff {
	return []duly.Backoff{
		"x", "fixed:", "fixed:-1s", "fixed:1s,2s", "fixed:367d", "fixed:1ns", "exp:1s", "exp:0s:1s", "exp:2s:1s",
		"exp:1s:1h:2h",
		"1s,,2s", "1s,", "linear:1s", duly.Backoff(strings.Repeat("1s,", duly.MaxBackoffSteps) + "1s"),
	}
}

func manyHeaders(n int) map[string]string {
	headers := map[string]string{}
	for i := range n {
		headers[fmt.Sprintf("h%d", i)] = "v"
	}
	return headers
}

func inputBeyondBounds(s *scene) {
	for _, b := range badFields() {
		s.names(fmt.Sprintf("a job with a bad %s", b.field), s.try(b.job).Err, b.code, b.field)
	}
	// A refused push creates no queue.
	same(s, "the queues after nothing but bad jobs", len(s.queues()), 0)
}

func inputAtBounds(s *scene) {
	good := []duly.Job{
		{Body: make([]byte, duly.DefaultMaxBody)},
		{Headers: manyHeaders(duly.MaxHeaders)},
		{Headers: map[string]string{"a": strings.Repeat("x", duly.MaxHeaderBytes-1)}},
		{Priority: duly.MaxPriority}, {Priority: duly.MinPriority},
		{Tries: 1}, {Tries: duly.MaxTries},
		{MaxStalls: 1}, {MaxStalls: duly.MaxTries}, {MaxStalls: duly.None},
		{TTL: time.Millisecond}, {TTL: time.Second, Delay: time.Second},
		{Lease: duly.MinLease}, {Lease: duly.MaxLease},
		{Backoff: "fixed:0s"}, {Backoff: "fixed:366d"}, {Backoff: "exp:1ms:366d"},
		{Backoff: duly.Backoff(strings.Repeat("1s,", duly.MaxBackoffSteps-1) + "1s")},
		{OrderKey: strings.Repeat("k", duly.MaxKey)},
		{Merge: duly.Merge{Key: strings.Repeat("k", duly.MaxKey)}},
	}
	for _, j := range good {
		id := s.push(j)
		got := s.get(id)
		s.sameContent("the stored job", got.Job, j)
		// Zero fields have got the defaults, so only set fields are compared.
		if j.Priority != got.Priority || j.Tries != 0 && j.Tries != got.Tries || j.MaxStalls != 0 &&
			j.MaxStalls != got.MaxStalls ||
			j.Lease != 0 && j.Lease != got.Lease || j.Backoff != "" && j.Backoff != got.Backoff {
			s.Errorf("stored is %+v, want %+v", got.Job, j)
		}
	}
}

func inputNamesAll(s *scene) {
	err := s.try(duly.Job{ID: "/", Priority: 5000, Tries: -1, Lease: 1, OrderKey: "\n", Backoff: "x"}).Err
	for _, field := range []string{"id", "priority", "tries", "lease", "order_key", "backoff"} {
		s.names("a job with six bad fields", err, duly.CodeInvalid, field)
	}
}

func inputStoresNothing(s *scene) {
	s.push(duly.Job{ID: "here"})
	s.unchanged("a bad job", func() {
		for _, b := range badFields() {
			b.job.ID = "bad"
			if r := s.try(b.job); r.Err == nil {
				s.Errorf("a push of a job with a bad %s returns %s, want an error", b.field, r.Status)
			}
		}
	})
	s.gone("bad")
}

func inputMergeRules(s *scene) {
	s.names("maxWait with keep", s.try(duly.Job{Merge: duly.Merge{Key: "k", MaxWait: time.Second}}).Err,
		duly.CodeInvalid, "merge.max_wait")
	s.names("until done with replace",
		s.try(duly.Job{Merge: duly.Merge{Key: "k", Mode: duly.MergeReplace, Until: duly.UntilDone}}).Err,
		duly.CodeInvalid, "merge.until")
	s.names("merging by nothing", s.try(duly.Job{Merge: duly.Merge{Until: duly.UntilDone}}).Err, duly.CodeInvalid,
		"merge.key")
}

func inputParameters(s *scene) {
	many := make([]string, duly.MaxReserveQueues+1)
	for i := range many {
		many[i] = fmt.Sprintf("q%d", i)
	}
	reserve := func(p duly.ReserveParams) error { _, err := s.Engine.Reserve(s.ctx, p); return err }
	s.names("reserve from no queue", reserve(duly.ReserveParams{Max: 1}), duly.CodeInvalid, "queues")
	s.names("reserve from 101 queues", reserve(duly.ReserveParams{Queues: many, Max: 1}), duly.CodeInvalid, "queues")
	s.names("reserve of none", reserve(duly.ReserveParams{Queues: many[:1]}), duly.CodeInvalid, "max")
	s.names("reserve of 1001", reserve(duly.ReserveParams{Queues: many[:1], Max: duly.MaxBatch + 1}), duly.CodeInvalid,
		"max")
	s.names("reserve with too short a lease", reserve(duly.ReserveParams{Queues: many[:1], Max: 1, Lease: 1}),
		duly.CodeInvalid, "lease")
	s.must("reserve from 100 queues", reserve(duly.ReserveParams{Queues: many[:duly.MaxReserveQueues], Max: 1}))

	wait := func(p duly.WaitParams) error { _, err := s.Engine.Wait(s.ctx, p); return err }
	s.names("wait for no queue", wait(duly.WaitParams{}), duly.CodeInvalid, "queues")
	s.names("wait for 101 queues", wait(duly.WaitParams{Queues: many}), duly.CodeInvalid, "queues")
	s.names("wait for a day", wait(duly.WaitParams{Queues: many[:1], Timeout: 24 * time.Hour}), duly.CodeInvalid, "wait")
	s.names("a negative wait", wait(duly.WaitParams{Queues: many[:1], Timeout: -1}), duly.CodeInvalid, "wait")

	list := func(p duly.ListParams) error { _, err := s.Engine.List(s.ctx, s.ref(), p); return err }
	s.names("list of no state", list(duly.ListParams{}), duly.CodeInvalid, "state")
	page := duly.PageParams{Limit: duly.MaxBatch + 1}
	s.names("a page of 1001", list(duly.ListParams{State: duly.StateReady, PageParams: page}), duly.CodeInvalid, "limit")
	page = duly.PageParams{Cursor: "\x00not a cursor"}
	s.names("a made-up cursor", list(duly.ListParams{State: duly.StateReady, PageParams: page}), duly.CodeInvalid,
		"cursor")

	// The lease of an extend is checked even without a receipt.
	_, err := s.Engine.Extend(s.ctx, "", nil, duly.MaxLease+1)
	s.names("extend for too long", err, duly.CodeInvalid, "lease")
	_, err = s.Engine.Purge(s.ctx, s.ref(), duly.StateNone, 0)
	s.names("purge of no state", err, duly.CodeInvalid, "state")
	_, err = s.Engine.Purge(s.ctx, s.ref(), duly.StateReady, -1)
	s.names("a purge of a negative number", err, duly.CodeInvalid, "n")
	_, err = s.Engine.Requeue(s.ctx, s.ref(), duly.RequeueParams{})
	s.names("requeue of nothing", err, duly.CodeInvalid, "n")
	_, err = s.Engine.Requeue(s.ctx, s.ref(), duly.RequeueParams{N: math.MaxInt})
	s.names("requeue of everything", err, duly.CodeInvalid, "n")
	_, err = s.Engine.Requeue(s.ctx, s.ref(), duly.RequeueParams{N: 1, Tries: duly.MaxTries + 1})
	s.names("requeue with too many tries", err, duly.CodeInvalid, "tries")
	same(s, "the queues after refused calls", len(s.queues()), 0)
}

func inputOutcomes(s *scene) {
	id := s.push(duly.Job{Retain: time.Hour})
	d := s.take()
	minus, hour := -time.Second, time.Hour
	bad := []struct {
		field   string
		code    duly.Code
		outcome duly.SettleRequest
	}{
		{"as", duly.CodeInvalid, duly.SettleRequest{}},
		{"as", duly.CodeInvalid, duly.SettleRequest{As: duly.Bury + 1}},
		{"delay", duly.CodeInvalid, duly.SettleRequest{As: duly.Nack, Delay: &minus}},
		{"delay", duly.CodeInvalid, duly.SettleRequest{As: duly.Ack, Delay: &hour}},
		{"delay", duly.CodeInvalid, duly.SettleRequest{As: duly.Bury, Delay: &hour}},
		{"result", duly.CodeInvalid, duly.SettleRequest{As: duly.Nack, Result: []byte("r")}},
		{"result", duly.CodeTooLarge, duly.SettleRequest{As: duly.Ack, Result: make([]byte, duly.MaxResult+1)}},
	}
	// A refused outcome leaves the job leased.
	s.unchanged("a bad outcome", func() {
		for _, b := range bad {
			b.outcome.Receipt = d.Receipt
			s.names("settle", s.settle(b.outcome), b.code, b.field)
		}
	})

	s.is(id, duly.StateLeased)
	s.must("ack with the longest result", s.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack,
		Result: make([]byte, duly.MaxResult)}))
	same(s, "the result's length", len(s.get(id).Result), duly.MaxResult)
}
