package wire

import (
	"testing"

	"github.com/dulymq/duly"
)

func TestJoinedRequestsAreOneInOrder(t *testing.T) {
	t.Parallel()
	push := func(ids ...string) []byte {
		jobs := make([]duly.Job, len(ids))
		for i, id := range ids {
			jobs[i] = duly.Job{ID: id, Queue: "q", Body: []byte("[]}")}
		}
		return AppendPush(nil, jobs)
	}
	for _, parts := range [][][]byte{
		{push("a", "b", "c")},
		{push("a"), push("b", "c")},
		{push("a", "b"), push("c")},
		{push(), push("a"), push(), push("b"), push("c"), push()},
	} {
		if got, want := string(Join(parts)), string(push("a", "b", "c")); got != want {
			t.Errorf("joined is %s, want %s", got, want)
		}
	}

	if got := string(Join([][]byte{push(), push()})); got != string(push()) {
		t.Errorf("nothing joined is %s", got)
	}
	settled := Join([][]byte{
		AppendSettle(nil, []duly.SettleRequest{{Receipt: "a", As: duly.Ack}}),
		AppendSettle(nil, []duly.SettleRequest{{Receipt: "b", As: duly.Nack}}),
	})
	if outcomes, err := ReadSettle(string(settled)); err != nil || len(outcomes.Values) != 2 ||
		outcomes.Values[1].As != duly.Nack {
		t.Errorf("%s is read as %+v, %v", settled, outcomes, err)
	}
}
