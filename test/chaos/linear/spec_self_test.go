package linear

import (
	"math"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// tape is a history in which every call ends before the next one begins.
type tape struct {
	number  duly.Number
	at      int64
	history []porcupine.Operation
}

func (t *tape) add(in step, out answer) *tape {
	t.at += 10
	in.sent, in.answered = t.at, t.at+1
	out.known = true
	t.history = append(t.history, porcupine.Operation{Input: in, Output: out, Call: t.at, Return: t.at + 1})
	return t
}

func (t *tape) push(verdict string) *tape { return t.add(step{kind: "push"}, answer{verdict: verdict}) }

// reserve adds a delivery whose lease ends after this many ms.
func (t *tape) reserve(n uint64, failures int, lease int64) *tape {
	a := answer{number: t.number.String(), delivery: n, failures: failures, leaseEnd: t.at + 10 + lease}
	return t.add(step{kind: "reserve"}, a)
}

func (t *tape) settle(n uint64, as duly.Settlement, verdict string) *tape {
	r := contract.ReceiptParts{Number: t.number, Delivery: n}
	return t.add(step{kind: "settle", receipt: r, as: as.String()}, answer{verdict: verdict})
}

func (t *tape) call(kind, verdict string, state duly.State) *tape {
	return t.add(step{kind: kind}, answer{verdict: verdict, state: state})
}

// unanswered removes the last answer.
func (t *tape) unanswered() *tape {
	last := &t.history[len(t.history)-1]
	last.Return, last.Output = math.MaxInt64, answer{}
	return t
}

// hidden inserts this many unanswered Reserves before the last call.
func (t *tape) hidden(n uint64) *tape {
	last := &t.history[len(t.history)-1]
	in := last.Input.(step)
	in.hidden = n
	last.Input = in
	return t
}

// TestSpecificationRefusesEachBreach checks that the specification accepts what the contract
// allows and refuses each kind of violation.
func TestSpecificationRefusesEachBreach(t *testing.T) {
	t.Parallel()
	begun := func() *tape { return (&tape{number: duly.NewNumber()}).push("created") }
	const long, short = 1000, 5
	for name, tt := range map[string]struct {
		*tape
		legal bool
	}{
		"a job is pushed, delivered and acked": {begun().reserve(1, 0, long).settle(1, duly.Ack, "ok").push("created"),
			true},
		"a lease ends": {begun().reserve(1, 0, short).reserve(2, 0, long).settle(1, duly.Ack,
			"lease_lost"), true},
		"a lease is taken back early":  {begun().reserve(1, 0, long).reserve(2, 0, long), false},
		"a current receipt is refused": {begun().reserve(1, 0, long).settle(1, duly.Ack, "lease_lost"), false},
		"a stale receipt is accepted": {begun().reserve(1, 0, short).reserve(2, 0, long).settle(1, duly.Ack,
			"ok"), false},
		"a receipt is accepted twice": {begun().reserve(1, 0, long).settle(1, duly.Nack, "ok").settle(1,
			duly.Nack, "ok"), false},
		"a failure is not counted": {begun().reserve(1, 0, long).settle(1, duly.Nack, "ok").reserve(2, 0,
			long), false},
		"an acked job comes back": {begun().reserve(1, 0, long).settle(1, duly.Ack, "ok").reserve(2, 0,
			long), false},
		"an unanswered ack may have happened": {begun().reserve(1, 0, long).settle(1, duly.Ack,
			"").unanswered().push("created"), true},
		"an unanswered ack may not have happened": {begun().reserve(1, 0, long).settle(1, duly.Ack,
			"").unanswered().call("get", "ok", duly.StateLeased), true},
		"a job is lost":               {begun().call("get", "not_found", 0), false},
		"a job is there twice":        {begun().push("created"), false},
		"a delivery is skipped":       {begun().reserve(2, 0, long), false},
		"a delivery was not answered": {begun().reserve(2, 0, long).hidden(1), true},
		"a deleted job is delivered":  {begun().call("delete", "ok", 0).reserve(1, 0, long), false},
		"a waiting job is requeued":   {begun().call("requeue", "ok", 0), false},
		"a dead job is not requeued": {begun().reserve(1, 0, long).settle(1, duly.Bury, "ok").call("requeue",
			"conflict", 0), false},
		"a ready job is denied": {begun().call("empty", "", 0), false},
		"a leased job is not":   {begun().reserve(1, 0, long).call("empty", "", 0), true},
	} {
		if legal := porcupine.CheckOperations(specification, tt.history); legal != tt.legal {
			t.Errorf("%s: legal is %t, want %t", name, legal, tt.legal)
		}
	}
}
