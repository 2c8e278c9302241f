package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// C8.7, C18.15, C18.16: a handler may choose the delay of the retry, bury the job, snooze it, or close
// the queue.
func TestHandlerErrorDecidesTheOutcome(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	delay := func(d time.Duration) *time.Duration { return &d }
	tests := []struct {
		name  string
		err   error
		ended error
		want  duly.SettleRequest
	}{
		{"NilAcks", nil, nil, duly.SettleRequest{As: duly.Ack}},
		{"NilAcksAfterALostLease", nil, ErrLeaseLost, duly.SettleRequest{As: duly.Ack}},
		{"NilAcksAfterATimeout", nil, ErrTimeout, duly.SettleRequest{As: duly.Ack}},
		{"ErrorNacks", boom, nil, duly.SettleRequest{As: duly.Nack, Error: "boom"}},
		{"RetryAfter", RetryAfter(time.Minute, boom), nil,
			duly.SettleRequest{As: duly.Nack, Delay: delay(time.Minute), Error: "boom"}},
		{"RetryAtOnce", RetryAfter(-1, boom), nil, duly.SettleRequest{As: duly.Nack, Delay: delay(0), Error: "boom"}},
		{"RetryWithoutAnError", RetryAfter(time.Minute, nil), nil,
			duly.SettleRequest{As: duly.Nack, Delay: delay(time.Minute), Error: "nack for 1m"}},
		{"Bury", Bury(boom), nil, duly.SettleRequest{As: duly.Bury, Error: "boom"}},
		{"BuryWithoutAnError", Bury(nil), nil, duly.SettleRequest{As: duly.Bury, Error: "bury"}},
		{"Snooze", Snooze(time.Hour), nil, duly.SettleRequest{As: duly.Release, Delay: delay(time.Hour)}},
		{"SnoozeNegative", Snooze(-time.Hour), nil, duly.SettleRequest{As: duly.Release, Delay: delay(0)}},
		{"Release", Release(), nil, duly.SettleRequest{As: duly.Release}},
		{"Overloaded", Overloaded(time.Minute, boom), nil,
			duly.SettleRequest{As: duly.Release, Slow: delay(time.Minute), Error: "boom"}},
		{"OverloadedNegative", Overloaded(-1, boom), nil,
			duly.SettleRequest{As: duly.Release, Slow: delay(0), Error: "boom"}},
		{"OverloadedForLong", Overloaded(2*time.Hour, boom), nil,
			duly.SettleRequest{As: duly.Release, Slow: delay(time.Hour), Error: "boom"}},
		{"OverloadedWithoutAnError", Overloaded(0, nil), nil,
			duly.SettleRequest{As: duly.Release, Slow: delay(0), Error: "the service is overloaded"}},
		{"OverloadedAndSnoozed", Overloaded(0, Snooze(time.Minute)), nil, duly.SettleRequest{As: duly.Release,
			Delay: delay(time.Minute), Slow: delay(0), Error: "release for 1m"}},
		{"Wrapped", fmt.Errorf("sending: %w", Bury(boom)), nil,
			duly.SettleRequest{As: duly.Bury, Error: "sending: boom"}},
		{"BuryAfterALostLease", Bury(boom), ErrLeaseLost, duly.SettleRequest{As: duly.Bury, Error: "boom"}},
		{"LostLeaseUsesNoTry", context.Canceled, ErrLeaseLost, duly.SettleRequest{As: duly.Release}},
		{"StopUsesNoTry", context.Canceled, ErrStopping, duly.SettleRequest{As: duly.Release}},
		{"TimeoutNacks", boom, ErrTimeout, duly.SettleRequest{As: duly.Nack, Error: ErrTimeout.Error() + ": boom"}},
		{"MaxHoldNacks", boom, ErrMaxHold, duly.SettleRequest{As: duly.Nack, Error: ErrMaxHold.Error() + ": boom"}},
		{"TextIsCut", errors.New(strings.Repeat("x", 5000)), nil,
			duly.SettleRequest{As: duly.Nack, Error: strings.Repeat("x", duly.MaxErrorText)}},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := decide(tt.err, tt.ended)
			if show(got) != show(tt.want) {
				t.Errorf("got %s, want %s", show(got), show(tt.want))
			}
			// The tracker adds the receipt.
			got.Receipt = contract.ReceiptParts{Queue: "q", Delivery: 1}.Receipt()
			if err := contract.ValidateSettle(&got); err != nil {
				t.Errorf("an engine refuses it: %v", err)
			}
		})
	}
}

func show(o duly.SettleRequest) string {
	text := func(d *time.Duration) string {
		if d == nil {
			return "none"
		}
		return d.String()
	}
	return fmt.Sprintf("%s delay %s slow %s error %q", o.As, text(o.Delay), text(o.Slow), o.Error)
}

func TestSettlementErrorsUnwrap(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for _, err := range []error{RetryAfter(time.Second, boom), Bury(boom), Overloaded(0, boom)} {
		if !errors.Is(err, boom) {
			t.Errorf("%v does not wrap its failure", err)
		}
	}
	if !errors.Is(ErrLeaseLost, duly.ErrLeaseLost) || !errors.Is(ErrTimeout, context.DeadlineExceeded) {
		t.Error("the causes do not wrap the errors of their documentation")
	}
}

func TestTrimStackBeginsAtThePanic(t *testing.T) {
	t.Parallel()
	const stack = "goroutine 7 [running]:\nruntime/debug.Stack()\n\t/go/debug/stack.go:26 +0x5e\n" +
		"panic({0x1?, 0x2?})\n\t/go/panic.go:770\nmain.handler()\n\t/main.go:3\n"
	if got := string(trimStack([]byte(stack))); got != "main.handler()\n\t/main.go:3\n" {
		t.Errorf("got %q", got)
	}
	for _, odd := range []string{"", "main.handler()\n", "\npanic("} {
		trimStack([]byte(odd)) // must not panic for any text
	}
}
